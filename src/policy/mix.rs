//! A random mix of routes at fixed weights.

use super::choice::{Plans, read_fallback};
use super::{Ask, Decision, DrawPath, Kind, Names, Policy, Setup, Spec, Unit, Why};
use crate::router::RouteId;
use crate::source::Table;

pub(super) const KIND: Kind = Kind {
    name: "mix",
    about: "Sends each request to a route drawn at the given weights. Needs nothing. A router that does not beat \
            the mix with its own shares has learnt nothing about the requests.",
    example: "[mix]\nweight = { small = 3, large = 1 }\n",
    read,
};

#[derive(Debug)]
struct MixSpec {
    weights: Vec<(RouteId, f64)>,
    fallback: Vec<RouteId>,
}

fn read(mut table: Table<'_>, names: &Names<'_>) -> Option<Box<dyn Spec>> {
    let mut weights = Vec::new();
    if let Some(mut inner) = table.require("weight").and_then(|value| value.table()) {
        let entries = inner.entries();
        for (name, value) in &entries {
            let route = names.catalogue.find(&name.value);
            if route.is_none() {
                value.report_diagnostic(name.unknown("route", names.catalogue.names()));
            }
            if let (Some(route), Some(weight)) = (route, value.number_in(0.0, 1e9)) {
                weights.push((route, weight));
            }
        }
        let known = weights.len() == entries.len();
        if known && weights.iter().map(|(_, weight)| weight).sum::<f64>() <= 0.0 {
            inner.error("at least one weight must be above 0");
        }
    }
    let fallback = read_fallback(&mut table, names);
    table.finish();
    Some(Box::new(MixSpec { weights, fallback }))
}

impl Spec for MixSpec {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn build(&self, setup: &mut Setup<'_>) -> Box<dyn Policy> {
        let plans = Plans::new(setup.catalogue, &self.fallback);
        let total: f64 = self.weights.iter().map(|(_, weight)| weight).sum();
        let mut below = 0.0;
        let choices = self
            .weights
            .iter()
            .map(|(route, weight)| {
                below += weight;
                let upper = (below / total * 4_294_967_296.0).round() as u64;
                (
                    upper,
                    Decision {
                        serve: plans.of(*route),
                        mirror: None,
                        why: Why(u32::from(route.0)),
                    },
                )
            })
            .collect();
        let names = setup.catalogue.names().map(str::to_owned).collect();
        Box::new(Mix {
            choices,
            path: setup.draw_path(),
            names,
        })
    }

    fn routes(&self) -> Vec<RouteId> {
        self.weights
            .iter()
            .map(|(route, _)| *route)
            .chain(self.fallback.iter().copied())
            .collect()
    }
}

#[derive(Clone, Debug)]
struct Mix {
    /// Upper end of each route's slice of 2³², ascending, with its decision.
    choices: Vec<(u64, Decision)>,
    path: DrawPath,
    names: Vec<String>,
}

impl Policy for Mix {
    #[inline]
    fn plan(&mut self, ask: &Ask) -> Decision {
        let draw = u64::from(ask.draw(self.path, Unit::Request));
        let last = self.choices.len() - 1;
        let index = self
            .choices
            .iter()
            .position(|(upper, _)| draw < *upper)
            .unwrap_or(last);
        self.choices[index].1
    }

    fn fork(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }

    fn explain(&self, _ask: &Ask, why: Why) -> String {
        format!("drawn by weight: `{}`", self.names[why.0 as usize])
    }
}
