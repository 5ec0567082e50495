//! A slice of users really gets the candidate's answers.

use super::choice::read_fallback;
use super::{Ask, Decision, DrawPath, Kind, Names, Policy, Setup, Spec, Unit, Why, parse_kind};
use crate::router::{LEGS_MAX, Leg, Plan, RouteId, Target};
use crate::source::{Diagnostic, Location, Table};

pub(super) const KIND: Kind = Kind {
    name: "canary",
    about: "Wraps a policy and sends a slice of the traffic to a candidate route instead. Needs users who can be told \
            apart, and somebody who grades the slice. Its flaws are felt by the slice: size it by the harm you can bear.",
    example: "[canary]\ncandidate = \"small\"\nweight = 0.05\nstick_to = \"user\"\nbase.static = { default = \"large\" }\n",
    read,
};

#[derive(Debug)]
struct CanarySpec {
    candidate: RouteId,
    weight: crate::units::Probability,
    stick_to: Unit,
    fallback: Vec<RouteId>,
    base: Box<dyn Spec>,
    location: Location,
}

fn read(mut table: Table<'_>, names: &Names<'_>) -> Option<Box<dyn Spec>> {
    let candidate = table
        .require("candidate")
        .and_then(|value| names.route(&value));
    let weight = table
        .require("weight")
        .and_then(|value| value.probability());
    let stick_to = table.get("stick_to").and_then(|value| {
        let units = [
            ("user", Unit::User),
            ("tenant", Unit::Tenant),
            ("session", Unit::Session),
            ("request", Unit::Request),
        ];
        value
            .one_of("unit", &units.map(|(name, _)| name))
            .map(|index| units[index].1)
    });
    let fallback = read_fallback(&mut table, names);
    let base = table
        .require("base")
        .and_then(|value| parse_kind(&value, names));
    let location = table.location();
    table.finish();
    Some(Box::new(CanarySpec {
        location,
        candidate: candidate?,
        weight: weight?,
        stick_to: stick_to.unwrap_or(Unit::User),
        fallback,
        base: base?,
    }))
}

impl Spec for CanarySpec {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn trains(&self, tasks: &[String]) -> bool {
        self.base.trains(tasks)
    }

    fn mirrors(&self) -> bool {
        self.base.mirrors()
    }

    fn sticks_to(&self) -> Option<Unit> {
        if self.stick_to == Unit::Request {
            self.base.sticks_to()
        } else {
            Some(self.stick_to)
        }
    }

    fn build(&self, setup: &mut Setup<'_>) -> Box<dyn Policy> {
        let path = setup.draw_path();
        if self.stick_to == Unit::Tenant && setup.tenants.is_empty() {
            setup.remark(
                Diagnostic::warning(
                    "no request of this workload has a tenant, so the canary's slice is drawn request by request",
                )
                .at(self.location.clone()),
            );
        }
        let base = setup.build_base(&*self.base);
        Box::new(Canary {
            candidate: self.candidate,
            below: self.weight.threshold(),
            stick_to: self.stick_to,
            fallback: self.fallback.clone(),
            path,
            base,
        })
    }

    fn verifiers(&self) -> Vec<&crate::verify::Verifier> {
        self.base.verifiers()
    }

    fn routes(&self) -> Vec<RouteId> {
        let mut routes = self.base.routes();
        routes.push(self.candidate);
        routes.extend(&self.fallback);
        routes
    }
}

struct Canary {
    candidate: RouteId,
    /// A draw below this is in the slice.
    below: u64,
    stick_to: Unit,
    fallback: Vec<RouteId>,
    path: DrawPath,
    base: Box<dyn Policy>,
}

/// The candidate's reason; reasons of the base are one higher than its own.
const IN_SLICE: Why = Why(0);

impl Policy for Canary {
    #[inline]
    fn plan(&mut self, ask: &Ask) -> Decision {
        let base = self.base.plan(ask);
        if u64::from(ask.draw(self.path, self.stick_to)) < self.below {
            let serve = behind(self.candidate, &self.fallback, &base.serve);
            return Decision {
                serve,
                mirror: base.mirror,
                why: IN_SLICE,
            };
        }
        Decision {
            why: Why(base.why.0.saturating_add(1)),
            ..base
        }
    }

    fn learn(&mut self, feedback: &super::Feedback) {
        self.base.learn(feedback);
    }

    fn stateful(&self) -> bool {
        self.base.stateful()
    }

    fn fork(&self) -> Box<dyn Policy> {
        Box::new(Self {
            candidate: self.candidate,
            below: self.below,
            stick_to: self.stick_to,
            fallback: self.fallback.clone(),
            path: self.path,
            base: self.base.fork(),
        })
    }

    fn explain(&self, ask: &Ask, why: Why) -> String {
        if why == IN_SLICE {
            return "drawn into the canary's slice; the base policy stands behind the candidate"
                .to_owned();
        }
        format!(
            "outside the canary's slice; {}",
            self.base.explain(ask, Why(why.0 - 1))
        )
    }
}

/// The candidate first, then the listed fallbacks, then whatever the base policy would have done: a
/// candidate that cannot take a request (or is down) must not cost the user an answer.
fn behind(candidate: RouteId, fallback: &[RouteId], base: &Plan) -> Plan {
    let first = Target::Route(candidate);
    let mut legs = [Leg {
        target: first,
        verifier: None,
    }; LEGS_MAX];
    let mut len = 1;
    let listed = fallback.iter().map(|route| Leg {
        target: Target::Route(*route),
        verifier: None,
    });
    for leg in listed.chain(base.legs()) {
        if len < LEGS_MAX && legs[..len].iter().all(|known| known.target != leg.target) {
            legs[len] = leg;
            len += 1;
        }
    }
    Plan::new(&legs[..len]).unwrap_or(Plan::single(candidate))
}
