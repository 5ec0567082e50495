//! What policies share that pick one route per request: a plan for each route, with the same
//! fallbacks behind it; and the order of routes by price.

use crate::catalogue::Catalogue;
use crate::router::{LEGS_MAX, Plan, RouteId};
use crate::source::Table;

use super::{Asks, Decision, Examples, Names};

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

/// The distinct plans of some decisions, and for each decision which of them it is.
#[derive(Clone, Debug, Default)]
pub(super) struct Menu {
    plans: Vec<Plan>,
    /// By decision.
    index: Vec<u8>,
    /// Whether there was one that has no place on a menu.
    unlisted: bool,
}

impl Menu {
    pub(super) fn new<'a>(decisions: impl IntoIterator<Item = &'a Decision>) -> Self {
        let mut menu = Self::default();
        for decision in decisions {
            menu.add(decision);
        }
        menu
    }

    /// Adds a decision and says which plan it is.
    pub(super) fn add(&mut self, decision: &Decision) -> u8 {
        let known = self.plans.iter().position(|plan| *plan == decision.serve);
        let at = known.unwrap_or_else(|| {
            self.plans.push(decision.serve);
            self.plans.len() - 1
        });
        self.unlisted |= decision.mirror.is_some() || at > usize::from(u8::MAX);
        self.index.push(at as u8);
        at as u8
    }

    /// The plans; nothing if some decision could not be listed.
    pub(super) fn plans(&self) -> &[Plan] {
        if self.unlisted { &[] } else { &self.plans }
    }

    /// For each request the plan of the decision that its task stands for.
    pub(super) fn pick_by_task(&self, asks: &Asks<'_>, picks: &mut [u8]) {
        for (pick, task) in picks.iter_mut().zip(asks.task) {
            *pick = self.index[usize::from(*task)];
        }
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

/// The candidates from cheap to dear, by what a call costs on their labelled examples: the recorded cost
/// if there is one, else list price times the tokens seen. A route whose cost nobody knows comes after all
/// whose cost is known, in the order of list prices. Ties keep the order given.
pub(crate) fn cheapest_first(
    catalogue: &Catalogue,
    candidates: &[(RouteId, Examples)],
) -> Vec<RouteId> {
    let cost = |route: RouteId, seen: &Examples| {
        if seen.costs_known > 0 {
            seen.cost_sum as f64 / seen.costs_known as f64
        } else if seen.tokens_known > 0 {
            let known = seen.tokens_known as f64;
            let (input, output) = (
                seen.input_tokens_sum as f64 / known,
                seen.output_tokens_sum as f64 / known,
            );
            expected_cost(catalogue, route, input, output)
        } else {
            f64::INFINITY
        }
    };
    let mut order: Vec<(f64, f64, RouteId)> = candidates
        .iter()
        .map(|(route, seen)| {
            (
                cost(*route, seen),
                expected_cost(catalogue, *route, 1.0, 1.0),
                *route,
            )
        })
        .collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    order.into_iter().map(|(_, _, route)| route).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(
        tokens_known: u64,
        output_tokens_sum: u64,
        costs_known: u64,
        cost_sum: u128,
    ) -> Examples {
        Examples {
            graded: 10,
            tokens_known,
            input_tokens_sum: 0,
            output_tokens_sum,
            costs_known,
            cost_sum,
            ..Examples::default()
        }
    }

    #[test]
    fn a_route_of_unknown_cost_is_never_the_cheapest() {
        let names = ["a", "b", "c"].map(str::to_owned);
        let catalogue = Catalogue::of_unknown_routes(&names);
        let [a, b, c] = [RouteId(0), RouteId(1), RouteId(2)];
        let order = cheapest_first(
            &catalogue,
            &[
                (a, seen(0, 0, 0, 0)),
                (b, seen(0, 0, 10, 90)),
                (c, seen(0, 0, 5, 20)),
            ],
        );
        assert_eq!(
            order,
            [c, b, a],
            "4 and 9 a call, then the one nobody knows"
        );
        let order = cheapest_first(
            &catalogue,
            &[(b, seen(10, 500, 0, 0)), (a, seen(10, 1, 0, 0))],
        );
        assert_eq!(
            order,
            [b, a],
            "tokens without a price say nothing about cost"
        );
    }
}
