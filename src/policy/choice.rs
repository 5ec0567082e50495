//! What policies share that pick one route per request: a plan for each route, with the same
//! fallbacks behind it; and the order of routes by price.

use crate::catalogue::Catalogue;
use crate::router::{LEGS_MAX, Plan, RouteId};
use crate::source::Table;

use super::Names;

/// A ready plan for every route: the route, then the fallbacks that are not the route itself.
#[derive(Clone, Debug)]
pub(super) struct Plans(Vec<Plan>);

impl Plans {
    pub(super) fn new(catalogue: &Catalogue, fallback: &[RouteId]) -> Self {
        let plan = |index: usize| {
            let route = RouteId(index as u16);
            let mut legs = vec![route];
            legs.extend(fallback.iter().copied().filter(|other| *other != route));
            legs.truncate(LEGS_MAX);
            Plan::chain(&legs).unwrap_or(Plan::single(route))
        };
        Self((0..catalogue.routes.len()).map(plan).collect())
    }

    #[inline(always)]
    pub(super) fn of(&self, route: RouteId) -> Plan {
        self.0[route.0 as usize]
    }
}

/// Reads the optional key `fallback = ["route", …]`.
pub(super) fn read_fallback(table: &mut Table<'_>, names: &Names<'_>) -> Vec<RouteId> {
    let Some(value) = table.get("fallback") else {
        return Vec::new();
    };
    let routes = names.routes(&value).unwrap_or_default();
    if routes.len() >= LEGS_MAX {
        value.error(format!(
            "at most {} fallbacks fit behind a route",
            LEGS_MAX - 1
        ));
    }
    for (index, route) in routes.iter().enumerate() {
        if routes[..index].contains(route) {
            value.error(format!(
                "`{}` names `{}` twice",
                value.path(),
                names.catalogue.routes[route.0 as usize].name
            ));
        }
    }
    routes
}

/// Expected cost of a call with these mean tokens, in 10⁻¹² USD; a route without a price comes last.
pub(super) fn expected_cost(catalogue: &Catalogue, route: RouteId, input: f64, output: f64) -> f64 {
    match catalogue.routes[route.0 as usize].price {
        Some(price) => price.input.0 as f64 * input + price.output.0 as f64 * output,
        None => f64::INFINITY,
    }
}

/// All routes, cheapest first for a prompt of `input` and an answer of `output` tokens; ties keep the
/// catalogue's order.
pub(super) fn cheapest_first(catalogue: &Catalogue, input: f64, output: f64) -> Vec<RouteId> {
    let mut routes: Vec<RouteId> = (0..catalogue.routes.len())
        .map(|index| RouteId(index as u16))
        .collect();
    routes.sort_by(|a, b| {
        expected_cost(catalogue, *a, input, output)
            .total_cmp(&expected_cost(catalogue, *b, input, output))
    });
    routes
}
