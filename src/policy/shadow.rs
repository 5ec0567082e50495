//! A candidate answers a copy of the traffic; nobody sees its answers.

use super::{Ask, Decision, DrawPath, Kind, Names, Policy, Setup, Spec, Unit, Why, parse_kind};
use crate::router::{Plan, RouteId};
use crate::source::{At, Table};

pub(super) const KIND: Kind = Kind {
    name: "shadow",
    about: "Wraps a policy and sends a copy of some requests to a candidate route, whose answers are graded and thrown \
            away. Needs a grader for both answers. Costs up to twice as much, risks nothing, and measures only what \
            the grader sees; few pairs prove nothing.",
    example: "[shadow]\ncandidate = \"medium\"\nshare = 0.1\nbase.static = { default = \"large\" }\n",
    read,
};

#[derive(Debug)]
struct ShadowSpec {
    candidate: RouteId,
    share: crate::units::Probability,
    tasks: Option<Vec<At<String>>>,
    base: Box<dyn Spec>,
}

fn read(mut table: Table<'_>, names: &Names<'_>) -> Option<Box<dyn Spec>> {
    let candidate = table
        .require("candidate")
        .and_then(|value| names.route(&value));
    let share = table.require("share").and_then(|value| value.probability());
    let tasks = table.get("task").and_then(|value| value.strings());
    let base = table.require("base").and_then(|value| {
        let base = parse_kind(&value, names)?;
        if base.mirrors() {
            value.error_help(
                "a shadow cannot stand around a policy that mirrors already: a request has one copy",
                "compare the two candidates as two policies",
            );
            return None;
        }
        Some(base)
    });
    table.finish();
    Some(Box::new(ShadowSpec {
        candidate: candidate?,
        share: share?,
        tasks,
        base: base?,
    }))
}

impl Spec for ShadowSpec {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn trains(&self, tasks: &[String]) -> bool {
        self.base.trains(tasks)
    }

    fn mirrors(&self) -> bool {
        true
    }

    fn sticks_to(&self) -> Option<super::Unit> {
        self.base.sticks_to()
    }

    fn build(&self, setup: &mut Setup<'_>) -> Box<dyn Policy> {
        let path = setup.draw_path();
        let tasks = self
            .tasks
            .as_ref()
            .map(|tasks| tasks.iter().filter_map(|task| setup.task(task)).collect());
        let base = setup.build_base(&*self.base);
        Box::new(Shadow {
            mirror: Plan::single(self.candidate),
            below: self.share.threshold(),
            tasks,
            path,
            base,
        })
    }

    fn out_of_reach(&self, requests: u64) -> Vec<crate::source::Diagnostic> {
        self.base.out_of_reach(requests)
    }

    fn verifiers(&self) -> Vec<&crate::verify::Verifier> {
        self.base.verifiers()
    }

    fn routes(&self) -> Vec<RouteId> {
        let mut routes = self.base.routes();
        routes.push(self.candidate);
        routes
    }
}

struct Shadow {
    mirror: Plan,
    below: u64,
    tasks: Option<Vec<u16>>,
    path: DrawPath,
    base: Box<dyn Policy>,
}

impl Policy for Shadow {
    #[inline]
    fn plan(&mut self, ask: &Ask) -> Decision {
        let mut decision = self.base.plan(ask);
        if self
            .tasks
            .as_ref()
            .is_none_or(|tasks| tasks.contains(&ask.task))
            && u64::from(ask.draw(self.path, Unit::Request)) < self.below
        {
            decision.mirror = Some(self.mirror);
        }
        decision
    }

    fn learn(&mut self, feedback: &super::Feedback) {
        self.base.learn(feedback);
    }

    fn learns_from_attempts(&self) -> bool {
        self.base.learns_from_attempts()
    }

    fn stateful(&self) -> bool {
        self.base.stateful()
    }

    fn rollout(&self) -> Option<super::Rollout> {
        self.base.rollout()
    }

    fn fork(&self) -> Box<dyn Policy> {
        Box::new(Self {
            mirror: self.mirror,
            below: self.below,
            tasks: self.tasks.clone(),
            path: self.path,
            base: self.base.fork(),
        })
    }

    fn explain(&self, ask: &Ask, why: Why) -> String {
        self.base.explain(ask, why)
    }
}
