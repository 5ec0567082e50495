//! A gate: may this change ship? One verdict for the whole traffic and one for each guarded slice, and all must pass.
//!
//! Each verdict is a paired test at the same error rate. Because *all* of them must pass, no adjustment is needed
//! for how many there are: a gate at α lets a change through that is worse anywhere, by more than the margin, with
//! probability at most α (R. L. Berger, *Technometrics* 24, 1982). What that costs is power: the smallest
//! slice decides how much data it takes. Two things fail whatever the statistics say: a request that would be
//! sent where the rules of today do not let it go, and a requirement whose whole interval is on the wrong side.

use super::format::{about, in_unit, margin_points, points, whole};
use super::sample::draws_once;
use super::slices::{Slice, SliceBy};
use super::{Findings, Outcome, Row};
use crate::sim::{Evidence, Versus};
use crate::stats::{Estimate, NonInferiority, needed, wilson_fraction, z_two_sided};

/// A key of the configuration that is not the same on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedKey {
    /// The file, relative to its folder.
    pub file: String,
    /// The key, with dots.
    pub key: String,
    /// Its value on the first side; `None` if it is not there.
    pub before: Option<String>,
    /// Its value on the second side; `None` if it is not there.
    pub after: Option<String>,
}

/// What a gate asks.
#[derive(Clone, Debug, Default)]
pub struct GateOptions {
    /// Slices that have a verdict of their own.
    pub guard: Vec<SliceBy>,
    /// The least evidence that can pass.
    pub min_evidence: Option<Evidence>,
    /// What differs between two configurations; `None` if two policies of one configuration are compared.
    pub changed: Option<Vec<ChangedKey>>,
}

/// What a verdict of a gate says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GateResult {
    /// It does not hold, and that is sure.
    Fail,
    /// Too little is known.
    Inconclusive,
    /// It holds.
    Pass,
}

impl GateResult {
    /// The word in reports.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Inconclusive => "inconclusive",
            Self::Pass => "pass",
        }
    }
}

/// One verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct GateVerdict {
    /// What was asked: `accuracy`, `residency`, `evidence` or a requirement.
    pub question: String,
    /// The task it is about; `None` for all.
    pub task: Option<String>,
    /// The tenant it is about; `None` for all.
    pub tenant: Option<String>,
    /// The answer.
    pub result: GateResult,
    /// What was measured, in words.
    pub measured: String,
    /// The number itself, if it is one.
    pub estimate: Option<Estimate>,
    /// Why it is not a pass, or what it stands on.
    pub why: String,
    /// Requests it would take to know, if that can be said.
    pub needed: Option<u64>,
}

/// A gate's verdicts with what they were made from.
#[derive(Clone, Debug)]
pub struct Gate {
    /// Both sides compared, the first one as the baseline.
    pub findings: Findings,
    /// Every verdict: residency, evidence, the whole traffic, requirements, slices.
    pub verdicts: Vec<GateVerdict>,
    pub(super) versus: Versus,
    pub(super) options: GateOptions,
}

impl Gate {
    /// The verdicts on `versus`, whose comparison is `findings`.
    #[must_use]
    pub fn new(findings: Findings, versus: Versus, options: GateOptions) -> Self {
        let mut gate = Self {
            findings,
            verdicts: Vec::new(),
            versus,
            options,
        };
        let mut verdicts = vec![gate.residency()];
        verdicts.extend(gate.evidence());
        verdicts.extend(gate.whole());
        verdicts.extend(gate.required());
        verdicts.extend(gate.slices_missing());
        for by in &gate.options.guard {
            let slices = gate.findings.slices.iter();
            let slices = slices.filter(|slice| slice.by == *by);
            verdicts.extend(slices.filter_map(|slice| gate.slice(slice)));
        }
        gate.verdicts = verdicts;
        gate
    }

    /// What all verdicts come to: the worst of them.
    #[must_use]
    pub fn result(&self) -> GateResult {
        let results = self.verdicts.iter().map(|verdict| verdict.result);
        results.min().unwrap_or(GateResult::Inconclusive)
    }

    /// The result with the evidence it stands on, such as `pass (simulated)`.
    #[must_use]
    pub fn in_words(&self) -> String {
        format!(
            "{} ({})",
            self.result().word(),
            self.findings.workload.evidence_word()
        )
    }

    /// The share of requests that another route serves.
    #[must_use]
    pub fn rerouted(&self) -> Estimate {
        let of = self.versus.determined;
        if of == 0 {
            return Estimate::unknown(self.findings.level);
        }
        // Shares of a sum may end a hair above the whole.
        let value = self.versus.rerouted().min(1.0);
        let limits = wilson_fraction(value, of as f64, z_two_sided(self.findings.level));
        Estimate::new(value, limits, self.findings.level, of, "wilson")
    }

    pub(super) fn base(&self) -> Option<&Row> {
        self.findings.rows.first()
    }

    pub(super) fn head(&self) -> Option<&Row> {
        self.findings.rows.get(1)
    }

    fn residency(&self) -> GateVerdict {
        let strays = self.versus.strayed;
        let rules = match self.options.changed {
            Some(_) => "the rules of the base",
            None => "their rules",
        };
        GateVerdict {
            question: "residency".to_owned(),
            task: None,
            tenant: None,
            result: if strays > 0 {
                GateResult::Fail
            } else {
                GateResult::Pass
            },
            measured: format!(
                "{} of {} requests outside {rules}",
                whole(strays),
                whole(self.versus.requests)
            ),
            estimate: None,
            why: match self.versus.violations.first() {
                Some(first) => format!("such as `{}`, to `{}`", first.example, first.route),
                None => format!("{} are bound by a rule", whole(self.versus.bound)),
            },
            needed: None,
        }
    }

    /// What stands in the way of verdicts on slices, if something does.
    fn slices_missing(&self) -> Option<GateVerdict> {
        let missing = !self.options.guard.is_empty() && self.findings.slices.is_empty();
        missing.then(|| GateVerdict {
            question: "slices".to_owned(),
            task: None,
            tenant: None,
            result: GateResult::Inconclusive,
            measured: String::new(),
            estimate: None,
            why: "too many tasks and tenants to tell apart: guard fewer with --guard, or give fewer replicates".to_owned(),
            needed: None,
        })
    }

    /// Whether numbers hang on one draw of a policy: more requests of the same draw do not even it out.
    pub(super) fn hangs_on_one_draw(&self) -> bool {
        let results = &self.versus.results;
        results.replicates < 2 && results.contestants.iter().any(draws_once)
    }

    fn evidence(&self) -> Option<GateVerdict> {
        let least = self.options.min_evidence?;
        let word = least.name();
        let has = self.findings.workload.evidence_word();
        let result = if strength(self.findings.workload.evidence) >= strength(least) {
            GateResult::Pass
        } else {
            GateResult::Inconclusive
        };
        Some(GateVerdict {
            question: "evidence".to_owned(),
            task: None,
            tenant: None,
            result,
            measured: has.to_owned(),
            estimate: None,
            why: match result {
                GateResult::Pass => format!("at least {word}"),
                _ => format!("--min-evidence asks for {word}: gate on recorded outcomes"),
            },
            needed: None,
        })
    }

    fn whole(&self) -> Option<GateVerdict> {
        let head = self.head()?;
        let mut paired = self.findings.paired.iter();
        let paired = paired.rfind(|one| one.policy == head.policy)?;
        Some(self.accuracy((None, None), &paired.accuracy_difference, paired.verdict))
    }

    fn slice(&self, slice: &Slice) -> Option<GateVerdict> {
        let head = self.head()?;
        let row = slice.rows.iter().find(|row| row.policy == head.policy)?;
        let tenant = match slice.by {
            SliceBy::Task => None,
            SliceBy::Tenant | SliceBy::TaskAndTenant => {
                Some(slice.tenant.clone().unwrap_or_else(|| "none".to_owned()))
            }
        };
        Some(self.accuracy(
            (slice.task.clone(), tenant),
            row.accuracy_difference.as_ref()?,
            row.verdict?,
        ))
    }

    fn accuracy(
        &self,
        (task, tenant): (Option<String>, Option<String>),
        difference: &Estimate,
        verdict: NonInferiority,
    ) -> GateVerdict {
        let margin = self.findings.margin;
        let needed = match needed(difference, -margin) {
            crate::stats::Needed::Observations(n) => Some(n),
            _ => None,
        };
        let beyond = difference.value.is_some_and(|value| value < -margin);
        let (result, why) = match verdict {
            NonInferiority::NonInferior if self.hangs_on_one_draw() => (
                GateResult::Inconclusive,
                "holds for this one draw of the policy: --replicates 20 says for others".to_owned(),
            ),
            NonInferiority::NonInferior => (
                GateResult::Pass,
                format!("not worse by more than {}", margin_points(margin)),
            ),
            NonInferiority::Inferior => (
                GateResult::Fail,
                format!("worse by more than {}", margin_points(margin)),
            ),
            NonInferiority::Inconclusive => (
                GateResult::Inconclusive,
                match needed {
                    _ if difference.n == 0 => "nobody graded both".to_owned(),
                    Some(n) if n > difference.n && beyond => format!(
                        "{} graded, about {} would show it worse",
                        whole(difference.n),
                        about(n)
                    ),
                    Some(n) if n > difference.n => {
                        format!("{} graded, about {} needed", whole(difference.n), about(n))
                    }
                    _ => format!("only {} graded", whole(difference.n)),
                },
            ),
        };
        GateVerdict {
            question: "accuracy".to_owned(),
            task,
            tenant,
            result,
            measured: points(difference),
            estimate: Some(difference.clone()),
            why,
            needed: needed.filter(|_| result == GateResult::Inconclusive),
        }
    }

    fn required(&self) -> Vec<GateVerdict> {
        let Some(head) = self.head() else {
            return Vec::new();
        };
        let judged = self.findings.requirements.iter();
        judged
            .filter(|judgement| judgement.policy == head.policy)
            .map(|judgement| {
                let (result, why, needed) = match &judgement.outcome {
                    Outcome::Pass => (GateResult::Pass, String::new(), None),
                    Outcome::Fail => (
                        GateResult::Fail,
                        "the whole interval is on the wrong side".to_owned(),
                        None,
                    ),
                    Outcome::Inconclusive { why, needed_n } => {
                        (GateResult::Inconclusive, why.clone(), *needed_n)
                    }
                };
                GateVerdict {
                    question: judgement.requirement.clone(),
                    task: None,
                    tenant: None,
                    result,
                    measured: in_unit(judgement.unit, &judgement.estimate),
                    estimate: Some(judgement.estimate.clone()),
                    why,
                    needed,
                }
            })
            .collect()
    }
}

/// Which evidence is stronger about accuracy. Tokens at other prices say nothing about it.
const fn strength(evidence: Evidence) -> u8 {
    match evidence {
        Evidence::RePriced => 0,
        Evidence::Simulated => 1,
        Evidence::OffPolicy => 2,
        Evidence::Paired => 3,
    }
}
