//! One route for everything.

use super::choice::{Plans, read_fallback};
use super::ready::Constant;
use super::{Kind, Names, Policy, Setup, Spec};
use crate::router::{Plan, RouteId};
use crate::source::Table;

pub(super) const KIND: Kind = Kind {
    name: "fixed",
    about: "Sends every request to one route. Needs nothing. The yardstick for everything else: it pays the \
            same for easy and hard requests, and fails with its route unless it has fallbacks.",
    example: "[fixed]\nroute = \"large\"\nfallback = [\"medium\"]\n",
    read,
};

#[derive(Debug)]
struct FixedSpec {
    route: RouteId,
    fallback: Vec<RouteId>,
}

fn read(mut table: Table<'_>, names: &Names<'_>) -> Option<Box<dyn Spec>> {
    let route = table.require("route").and_then(|value| names.route(&value));
    let fallback = read_fallback(&mut table, names);
    table.finish();
    Some(Box::new(FixedSpec {
        route: route?,
        fallback,
    }))
}

impl Spec for FixedSpec {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn build(&self, setup: &mut Setup<'_>) -> Box<dyn Policy> {
        let serve = Plans::new(setup.catalogue, &self.fallback).of(self.route);
        Box::new(Constant::new(serve, REASON))
    }

    fn routes(&self) -> Vec<RouteId> {
        let mut routes = vec![self.route];
        routes.extend(&self.fallback);
        routes
    }
}

const REASON: &str = "every request goes to this route";

/// The policy behind the control `always-<route>`.
pub(crate) fn always(route: RouteId) -> Box<dyn Policy> {
    Box::new(Constant::new(Plan::single(route), REASON))
}
