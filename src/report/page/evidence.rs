//! What each level of evidence allows to say, and what it does not.

use super::{Cell, Column, Group, Table};
use crate::sim::Evidence;

/// A level in words.
pub(in crate::report) struct Level {
    evidence: Evidence,
    /// Its name.
    pub(in crate::report) word: &'static str,
    /// What its numbers stand on.
    pub(in crate::report) stands_on: &'static str,
    allows: &'static str,
    forbids: &'static str,
}

/// All of them, the weakest claim about real models last.
const LEVELS: [Level; 4] = [
    Level {
        evidence: Evidence::RePriced,
        word: "re-priced",
        stands_on: "recorded tokens at other prices",
        allows: "What the same answers would have cost at other prices.",
        forbids: "Nothing about quality: no other route was asked, and another model would have used other tokens.",
    },
    Level {
        evidence: Evidence::Paired,
        word: "paired",
        stands_on: "recorded answers of every route to the same requests",
        allows: "Which policy would have been right, and at what cost, on these requests.",
        forbids: "Requests unlike the recorded ones, models that changed since, load and outages.",
    },
    Level {
        evidence: Evidence::OffPolicy,
        word: "off-policy",
        stands_on: "recorded choices with known chances",
        allows: "What another policy would have got where the recorded one might have chosen the same.",
        forbids: "Choices that the recorded policy never made; a few heavy weights can carry an estimate.",
    },
    Level {
        evidence: Evidence::Simulated,
        word: "simulated",
        stands_on: "a model of the world",
        allows: "How policies behave if the world is as assumed, and how much data a real test would need.",
        forbids: "Real models: their accuracy and cost here are assumptions of the workload file.",
    },
];

/// The level of this evidence.
pub(in crate::report) fn level(evidence: Evidence) -> &'static Level {
    LEVELS
        .iter()
        .find(|level| level.evidence == evidence)
        .unwrap_or(&LEVELS[3])
}

/// The sentence that stands above everything, if numbers are not what they look like.
pub(super) fn warning(evidence: Evidence) -> Option<&'static str> {
    match evidence {
        Evidence::Paired => None,
        Evidence::RePriced => Some(
            "Re-priced: recorded tokens at other prices. It says nothing about the quality of other models.",
        ),
        Evidence::OffPolicy => Some(
            "Off-policy: estimated from choices that another policy made. Read what it allows and does not below.",
        ),
        Evidence::Simulated => Some(
            "Simulated: every number here comes from an assumed world. It says nothing about real models.",
        ),
    }
}

/// As [`warning`], of the level of this name; `None` if there is none of this name.
pub(super) fn warning_of(word: &str) -> Option<&'static str> {
    let level = LEVELS.iter().find(|level| level.word == word)?;
    warning(level.evidence)
}

/// The four levels with this one marked.
pub(super) fn table(here: Evidence) -> Table {
    let rows = LEVELS
        .iter()
        .map(|level| {
            let mark = if level.evidence == here {
                "this report"
            } else {
                ""
            };
            [
                level.word,
                mark,
                level.stands_on,
                level.allows,
                level.forbids,
            ]
            .map(Cell::prose)
            .to_vec()
        })
        .collect();
    Table {
        caption: "Levels of evidence".to_owned(),
        columns: [
            "level",
            "here",
            "stands on",
            "allows to say",
            "does not allow",
        ]
        .map(Column::words)
        .to_vec(),
        groups: vec![Group {
            label: String::new(),
            rows,
        }],
        filters: Vec::new(),
    }
}
