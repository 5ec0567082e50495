//! Policies at work whose plans are ready before the first request: one for all requests, or one for
//! each task.

use super::choice::Menu;
use super::{Ask, Asks, Decision, Policy, Why};
use crate::router::Plan;

/// One decision per task, and why.
#[derive(Clone, Debug)]
pub(super) struct ByTask {
    by_task: Vec<Decision>,
    /// Of `by_task`.
    menu: Menu,
    reasons: Vec<String>,
}

impl ByTask {
    /// The plan and the reason of each task, in the workload's order.
    pub(super) fn new(choices: Vec<(Plan, String)>) -> Self {
        let mut by_task = Vec::with_capacity(choices.len());
        let mut reasons = Vec::with_capacity(choices.len());
        for (task, (serve, reason)) in choices.into_iter().enumerate() {
            by_task.push(Decision {
                serve,
                mirror: None,
                why: Why(task as u32),
            });
            reasons.push(reason);
        }
        Self {
            menu: Menu::new(&by_task),
            by_task,
            reasons,
        }
    }
}

impl Policy for ByTask {
    #[inline]
    fn plan(&mut self, ask: &Ask) -> Decision {
        self.by_task[ask.task as usize]
    }

    fn menu(&self) -> &[Plan] {
        self.menu.plans()
    }

    fn pick_all(&self, asks: &Asks<'_>, picks: &mut [u8]) {
        self.menu.pick_by_task(asks, picks);
    }

    fn fork(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }

    fn explain(&self, _ask: &Ask, why: Why) -> String {
        self.reasons[why.0 as usize].clone()
    }
}

/// One plan for every request.
#[derive(Clone, Debug)]
pub(super) struct Constant {
    decision: Decision,
    reason: &'static str,
}

impl Constant {
    /// This plan, and why.
    pub(super) fn new(serve: Plan, reason: &'static str) -> Self {
        let decision = Decision {
            serve,
            mirror: None,
            why: Why(0),
        };
        Self { decision, reason }
    }
}

impl Policy for Constant {
    #[inline]
    fn plan(&mut self, _ask: &Ask) -> Decision {
        self.decision
    }

    fn menu(&self) -> &[Plan] {
        std::slice::from_ref(&self.decision.serve)
    }

    fn fork(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }

    fn explain(&self, _ask: &Ask, _why: Why) -> String {
        self.reason.to_owned()
    }
}
