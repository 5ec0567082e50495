//! Try the cheap route first, let a verifier look, and pass on what it rejects.

use super::ready::Constant;
use super::{Kind, Names, Policy, Setup, Spec};
use crate::router::{LEGS_MAX, Leg, Plan, RouteId, Target};
use crate::source::Table;
use crate::verify::Verifier;

pub(super) const KIND: Kind = Kind {
    name: "cascade",
    about: "Tries routes in order; a verifier accepts or rejects each answer, the last route's answer is final. \
            Needs a verifier whose false-accept rate is known. Fails when the verifier accepts wrong answers: cost \
            and accuracy fall together. Every rejected answer is paid for.",
    example: "[cascade]\norder = [\"small\", \"medium\", \"large\"]\nverifier.simulated = { accept_if_correct = 0.93, accept_if_wrong = 0.30 }\n",
    read,
};

#[derive(Debug)]
struct CascadeSpec {
    order: Vec<RouteId>,
    verifier: Verifier,
}

fn read(mut table: Table<'_>, names: &Names<'_>) -> Option<Box<dyn Spec>> {
    let order = table.require("order").and_then(|value| {
        let order = names.routes(&value)?;
        if order.len() > LEGS_MAX {
            value.error(format!(
                "a cascade has at most {LEGS_MAX} routes, not {}",
                order.len()
            ));
            return None;
        }
        for (index, route) in order.iter().enumerate() {
            if order[..index].contains(route) {
                let again = value.list().and_then(|items| items.get(index).cloned());
                again.as_ref().unwrap_or(&value).error_help(
                    format!(
                        "the cascade goes in a cycle: it reaches `{}` twice",
                        names.catalogue.routes[route.0 as usize].name
                    ),
                    "name each route once; attempts on one route are set in `[router]`",
                );
                return None;
            }
        }
        Some(order)
    });
    let verifier = table
        .require("verifier")
        .and_then(|value| names.verifier(&value));
    table.finish();
    Some(Box::new(CascadeSpec {
        order: order?,
        verifier: verifier?,
    }))
}

impl Spec for CascadeSpec {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn build(&self, setup: &mut Setup<'_>) -> Box<dyn Policy> {
        let verifier = setup.verifier(self.verifier.clone());
        let last = self.order.len() - 1;
        let legs: Vec<Leg> = self
            .order
            .iter()
            .enumerate()
            .map(|(index, route)| Leg {
                target: Target::Route(*route),
                verifier: (index < last).then_some(verifier),
            })
            .collect();
        // The reader checked the number of legs.
        let serve = Plan::new(&legs).unwrap_or(Plan::single(self.order[0]));
        Box::new(Constant::new(
            serve,
            "every request starts at the first route of the cascade; the verifier decides how far it goes",
        ))
    }

    fn routes(&self) -> Vec<RouteId> {
        let mut routes = self.order.clone();
        routes.extend(self.verifier.judge().map(|judge| judge.route));
        routes
    }

    fn verifiers(&self) -> Vec<&Verifier> {
        vec![&self.verifier]
    }
}
