//! A slice of users really gets the candidate's answers.
//!
//! The slice has one size for good (`weight`), or it grows step by step (`steps`) while its answers are
//! graded, and a test can withdraw the candidate. How a ramp moves is in `ramp`, how it is read in
//! `read`. What this is not: a calculation of how large a slice should be, see `size::canary`.

mod ramp;
mod read;

use std::sync::Arc;

use super::choice::read_fallback;
use super::{
    Ask, Decision, DrawPath, Feedback, FeedbackOf, Kind, Names, Policy, Rollout, RolloutEnd, Setup,
    Spec, Unit, Why, parse_kind,
};
use crate::router::{LEGS_MAX, Leg, Plan, RouteId, Target};
use crate::source::{Diagnostic, Location, Table};
use ramp::{Progress, Seat};
use read::{Size, read_size};

pub(super) const KIND: Kind = Kind {
    name: "canary",
    about: "Wraps a policy and sends a slice of the traffic to a candidate route instead. Needs users who can be told \
            apart, and somebody who grades the slice. Its flaws are felt by the slice: size it by the harm you can \
            bear. With `steps` the slice grows as its answers are graded, beside a control of equal size, and an \
            `abort` test withdraws the candidate for good; without grades it stays at its first step.",
    example: "[canary]\ncandidate = \"small\"\nweight = 0.05\nstick_to = \"user\"\nbase.static = { default = \"large\" }\n",
    read,
};

#[derive(Debug)]
struct CanarySpec {
    candidate: RouteId,
    size: Size,
    stick_to: Unit,
    fallback: Vec<RouteId>,
    base: Box<dyn Spec>,
    location: Location,
}

fn read(mut table: Table<'_>, names: &Names<'_>) -> Option<Box<dyn Spec>> {
    let candidate = table
        .require("candidate")
        .and_then(|value| names.route(&value));
    let size = read_size(&mut table);
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
        size: size?,
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
        if let (Size::Ramp(written), Some(requests)) = (&self.size, setup.requests)
            && let Some(remark) = written.out_of_reach(requests)
        {
            setup.remark(remark);
        }
        let base = setup.build_base(&*self.base);
        Box::new(Canary {
            candidate: self.candidate,
            size: match &self.size {
                Size::Fixed(weight) => Slice::Fixed {
                    below: weight.threshold(),
                },
                Size::Ramp(written) => {
                    Slice::Ramp(Box::new(Progress::new(Arc::new(written.ramp.clone()))))
                }
            },
            stick_to: self.stick_to,
            fallback: self.fallback.clone(),
            path,
            base,
        })
    }

    fn out_of_reach(&self, requests: u64) -> Vec<Diagnostic> {
        let own = match &self.size {
            Size::Fixed(_) => None,
            Size::Ramp(written) => written.out_of_reach(requests),
        };
        let mut found = self.base.out_of_reach(requests);
        found.extend(own);
        found
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
    size: Slice,
    stick_to: Unit,
    fallback: Vec<RouteId>,
    path: DrawPath,
    base: Box<dyn Policy>,
}

/// Who is in the slice.
#[derive(Clone, Debug)]
enum Slice {
    /// Draws below this, for good.
    Fixed { below: u64 },
    /// As many as the answers so far allow.
    Ramp(Box<Progress>),
}

impl Slice {
    #[inline]
    fn seat(&self, draw: u32) -> Seat {
        match self {
            Self::Fixed { below } if u64::from(draw) < *below => Seat::Slice(0),
            Self::Fixed { .. } => Seat::Outside,
            Self::Ramp(progress) => progress.seat(draw),
        }
    }

    /// Steps, for [`Slice::why`].
    fn steps(&self) -> u32 {
        match self {
            Self::Fixed { .. } => 1,
            // At most a dozen.
            Self::Ramp(progress) => progress.steps().len() as u32,
        }
    }

    /// Places outside the slice that a reason tells apart: one, and the control at each step.
    fn places(&self) -> u32 {
        match self {
            Self::Fixed { .. } => 1,
            Self::Ramp(_) => self.steps() + 1,
        }
    }

    /// The reason: the step, for a request in the slice; above these the base's reason and the place.
    #[inline]
    fn why(&self, seat: Seat, base: Why) -> Why {
        let place = match seat {
            Seat::Slice(step) => return Why(step as u32),
            Seat::Control(step) => step as u32 + 1,
            Seat::Outside => 0,
        };
        let above = base.0.saturating_mul(self.places()).saturating_add(place);
        Why(above.saturating_add(self.steps()))
    }

    /// What [`Slice::why`] was made from; the base's reason only where the base answered.
    fn seat_of(&self, why: Why) -> (Seat, Option<Why>) {
        let Some(above) = why.0.checked_sub(self.steps()) else {
            return (Seat::Slice(why.0 as usize), None);
        };
        let seat = match above % self.places() {
            0 => Seat::Outside,
            step => Seat::Control(step as usize - 1),
        };
        (seat, Some(Why(above / self.places())))
    }

    /// The request after which the candidate was withdrawn.
    fn withdrawn(&self) -> Option<u64> {
        match self {
            Self::Fixed { .. } => None,
            Self::Ramp(progress) => match progress.rollout().end {
                RolloutEnd::RolledBack { request, .. } => Some(request),
                RolloutEnd::Promoted { .. } | RolloutEnd::Paused => None,
            },
        }
    }
}

impl Policy for Canary {
    #[inline]
    fn plan(&mut self, ask: &Ask) -> Decision {
        let base = self.base.plan(ask);
        let seat = self.size.seat(ask.draw(self.path, self.stick_to));
        let why = self.size.why(seat, base.why);
        if matches!(seat, Seat::Slice(_)) {
            let serve = behind(self.candidate, &self.fallback, &base.serve);
            return Decision {
                serve,
                mirror: base.mirror,
                why,
            };
        }
        Decision { why, ..base }
    }

    fn learn(&mut self, feedback: &Feedback) {
        let (seat, base) = self.size.seat_of(feedback.why);
        // An attempt that failed says nothing about the answer that was served in the end.
        if let (Slice::Ramp(progress), FeedbackOf::Request) = (&mut self.size, feedback.of) {
            progress.note(seat, feedback.grade, feedback.request);
        }
        // In the slice the base decided nothing that it could learn from.
        if let Some(why) = base {
            self.base.learn(&Feedback { why, ..*feedback });
        }
    }

    fn learns_from_attempts(&self) -> bool {
        self.base.learns_from_attempts()
    }

    fn stateful(&self) -> bool {
        matches!(self.size, Slice::Ramp(_)) || self.base.stateful()
    }

    fn rollout(&self) -> Option<Rollout> {
        match &self.size {
            Slice::Fixed { .. } => self.base.rollout(),
            Slice::Ramp(progress) => Some(progress.rollout()),
        }
    }

    fn fork(&self) -> Box<dyn Policy> {
        Box::new(Self {
            candidate: self.candidate,
            size: self.size.clone(),
            stick_to: self.stick_to,
            fallback: self.fallback.clone(),
            path: self.path,
            base: self.base.fork(),
        })
    }

    fn explain(&self, ask: &Ask, why: Why) -> String {
        let (seat, base) = self.size.seat_of(why);
        let step = |step: usize| match &self.size {
            Slice::Fixed { .. } => String::new(),
            Slice::Ramp(progress) => format!(
                " (step {} of {}, weight {})",
                step + 1,
                progress.steps().len(),
                progress.steps()[step].weight
            ),
        };
        let Some(base) = base else {
            let step = match seat {
                Seat::Slice(at) => step(at),
                Seat::Control(_) | Seat::Outside => String::new(),
            };
            return format!(
                "drawn into the canary's slice{step}; the base policy stands behind the candidate"
            );
        };
        let base = self.base.explain(ask, base);
        let place = match (seat, self.size.withdrawn()) {
            (Seat::Control(at), _) => {
                format!("in the control beside the canary's slice{}", step(at))
            }
            (_, Some(request)) => {
                format!("the canary was withdrawn after request {request} (from 0)")
            }
            _ => "outside the canary's slice".to_owned(),
        };
        format!("{place}; {base}")
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
