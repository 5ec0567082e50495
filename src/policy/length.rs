//! Long prompts to the strong route, short ones to the weak route.

use super::{Ask, Asks, Decision, Kind, Names, Policy, Setup, Spec, Why};
use crate::router::{Plan, RouteId};
use crate::source::{Diagnostic, Table};
use crate::units::Tokens;

pub(super) const KIND: Kind = Kind {
    name: "length",
    about: "Prompts longer than a threshold go to the strong route, the rest to the weak one. Needs the prompt's \
            length and nothing else. As a control it asks whether a router knows more than that long prompts are hard.",
    example: "[length]\nweak = \"small\"\nstrong = \"large\"\nthreshold = 500\n",
    read,
};

/// Long prompts to the strong route.
#[derive(Clone, Copy, Debug)]
pub struct Length {
    /// Who answers short prompts.
    pub weak: RouteId,
    /// Who answers long prompts, and those of unknown length.
    pub strong: RouteId,
    /// Longest short prompt, in tokens (in characters if tokens are unknown); the median of the
    /// lab's prompts when `None`.
    pub threshold: Option<u32>,
}

fn read(mut table: Table<'_>, names: &Names<'_>) -> Option<Box<dyn Spec>> {
    let weak = table.require("weak").and_then(|value| names.route(&value));
    let strong = table
        .require("strong")
        .and_then(|value| names.route(&value));
    let threshold = table
        .get("threshold")
        .and_then(|value| value.integer_in(0, 1 << 31))
        .map(|n| n as u32);
    table.finish();
    Some(Box::new(Length {
        weak: weak?,
        strong: strong?,
        threshold,
    }))
}

impl Spec for Length {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn trains(&self, _tasks: &[String]) -> bool {
        self.threshold.is_none()
    }

    fn build(&self, setup: &mut Setup<'_>) -> Box<dyn Policy> {
        let threshold = self.threshold.or_else(|| setup.lab.median_length());
        if threshold.is_none() {
            setup.remark(Diagnostic::warning(
                "no request of this workload has a prompt length, so a policy by length sends all to `strong`",
            ));
        }
        // No prompt is then known to be short, whatever the threshold.
        let threshold = threshold.unwrap_or(0);
        let decision = |route, why| Decision {
            serve: Plan::single(route),
            mirror: None,
            why: Why(why),
        };
        Box::new(ByLength {
            threshold,
            menu: [Plan::single(self.weak), Plan::single(self.strong)],
            short: decision(self.weak, 0),
            long: decision(self.strong, 1),
        })
    }

    fn routes(&self) -> Vec<RouteId> {
        vec![self.weak, self.strong]
    }
}

#[derive(Clone, Debug)]
struct ByLength {
    threshold: u32,
    short: Decision,
    long: Decision,
    /// The plans of `short` and `long`.
    menu: [Plan; 2],
}

impl ByLength {
    #[inline(always)]
    fn is_short(&self, input_tokens: Tokens, prompt_chars: Tokens) -> bool {
        input_tokens
            .get()
            .or(prompt_chars.get())
            .is_some_and(|length| length <= self.threshold)
    }
}

impl Policy for ByLength {
    #[inline]
    fn plan(&mut self, ask: &Ask) -> Decision {
        if self.is_short(ask.need.input_tokens, ask.prompt_chars) {
            self.short
        } else {
            self.long
        }
    }

    fn menu(&self) -> &[Plan] {
        &self.menu
    }

    fn pick_all(&self, asks: &Asks<'_>, picks: &mut [u8]) {
        let lengths = asks.input_tokens.iter().zip(asks.prompt_chars);
        for (pick, (tokens, chars)) in picks.iter_mut().zip(lengths) {
            *pick = u8::from(!self.is_short(*tokens, *chars));
        }
    }

    fn fork(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }

    fn explain(&self, _ask: &Ask, why: Why) -> String {
        let side = if why.0 == 0 {
            "at most"
        } else {
            "more than (or unknown, against)"
        };
        format!("the prompt's length is {side} {}", self.threshold)
    }
}
