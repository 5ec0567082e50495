//! A gate written down: the blocks, facts and records of its [`Sheet`].

use serde_json::{Map, Value, json};

use super::Row;
use super::format::{
    about, decimal, in_unit, margin_points, percent_exact, points, share, usd, usd_difference,
    whole,
};
use super::gate::{Gate, GateResult, GateVerdict};
use super::layout::Block;
use super::metrics::{METRICS, Unit};
use super::notes::listed;
use super::sheet::{Sheet, block};
use crate::sim::Evidence;
use crate::stats::Estimate;

/// Most verdicts in the table for a terminal; those that did not pass come first.
const SHOWN_MAX: usize = 16;
/// Most changes of route in the table.
const MOVES_MAX: usize = 6;
/// Most changed keys in the table.
const CHANGED_MAX: usize = 12;

impl Gate {
    /// The gate as a document of schema `routelab.gate/1`.
    #[must_use]
    pub fn sheet(&self) -> Sheet {
        let blocks = [
            self.verdict_block(),
            self.change_block(),
            self.moves_block(),
            self.violations_block(),
            self.keys_block(),
        ];
        Sheet {
            schema: "routelab.gate/1",
            title: self.title(),
            blocks: blocks
                .into_iter()
                .filter(|block| !block.lines.is_empty())
                .collect(),
            file: None,
            figures: Vec::new(),
            summary: self.summary(),
            notes: self.notes(),
            facts: self.facts(),
            records: self.records(),
        }
    }

    fn title(&self) -> String {
        let name = |row: Option<&Row>| row.map_or_else(String::new, |row| row.policy.clone());
        let workload = &self.findings.workload;
        format!(
            "gate: {} in place of {}, {} requests of {}, {}",
            name(self.head()),
            name(self.base()),
            whole(workload.requests),
            workload.name,
            workload.evidence_word()
        )
    }

    fn verdict_block(&self) -> Block {
        let mut order: Vec<&GateVerdict> = self.verdicts.iter().collect();
        // What has to be looked at stands first; the order is otherwise as it was asked.
        order.sort_by_key(|verdict| verdict.result);
        let line = |verdict: &GateVerdict| {
            vec![
                verdict.result.word().to_owned(),
                verdict.question.clone(),
                verdict.task.clone().unwrap_or_else(|| "all".to_owned()),
                verdict.tenant.clone().unwrap_or_else(|| "all".to_owned()),
                verdict.measured.clone(),
                verdict.why.clone(),
            ]
        };
        let mut lines: Vec<Vec<String>> = order.iter().map(|verdict| line(verdict)).collect();
        if lines.len() > SHOWN_MAX {
            let rest = lines.split_off(SHOWN_MAX - 1);
            let passed = order[SHOWN_MAX - 1..].iter();
            let passed = passed
                .filter(|verdict| verdict.result == GateResult::Pass)
                .count();
            let mut more = vec![
                String::new(),
                format!("and {} more", rest.len()),
                String::new(),
                String::new(),
                String::new(),
                format!("{passed} of them pass"),
            ];
            more.truncate(6);
            lines.push(more);
        }
        block(
            format!(
                "Verdicts, {} (margin {} points, one-sided alpha {} each, all must pass)",
                self.findings.workload.evidence_word(),
                margin_points(self.findings.margin),
                self.findings.alpha,
            ),
            &[
                ("result", false),
                ("question", false),
                ("task", false),
                ("tenant", false),
                ("measured", true),
                ("remark", false),
            ],
            lines,
        )
    }

    fn change_block(&self) -> Block {
        let (Some(base), Some(head)) = (self.base(), self.head()) else {
            return block(String::new(), &[], Vec::new());
        };
        let mut paired = self.findings.paired.iter();
        let paired = paired.rfind(|one| one.policy == head.policy);
        let mut lines = Vec::new();
        let mut line = |what: &str, write: &dyn Fn(&Estimate) -> String, change: String| {
            let value = |row: &Row| row.metric(what).map_or_else(String::new, write);
            lines.push(vec![spoken(what), value(base), value(head), change]);
        };
        line(
            "accuracy",
            &share,
            paired.map_or_else(String::new, |one| {
                format!("{} points", points(&one.accuracy_difference))
            }),
        );
        line(
            "usd_per_1k",
            &usd,
            paired.map_or_else(String::new, |one| {
                usd_difference(&one.usd_per_1k_difference)
            }),
        );
        line(
            "calls_per_request",
            &|estimate| in_unit(Unit::Count, estimate),
            String::new(),
        );
        line("unserved", &share, String::new());
        let known = |row: &Row, name: &str| {
            row.metric(name)
                .and_then(|one| one.value)
                .is_some_and(|value| value > 0.0)
        };
        for extra in ["mirror_usd_per_1k", "judge_calls_per_request"] {
            if known(base, extra) || known(head, extra) {
                let unit = METRICS.iter().find(|metric| metric.name == extra);
                let unit = unit.map_or(Unit::Count, |metric| metric.unit);
                line(extra, &|estimate| in_unit(unit, estimate), String::new());
            }
        }
        if let Some(volume) = self.findings.volume {
            let monthly = |estimate: &Estimate| usd(&estimate.clone().scaled(volume / 1_000.0));
            let value = |row: &Row| row.metric("usd_per_1k").map_or_else(String::new, monthly);
            let change = paired.map_or_else(String::new, |one| {
                usd_difference(&one.usd_per_1k_difference.clone().scaled(volume / 1_000.0))
            });
            lines.push(vec![
                format!("USD for {} requests", decimal(volume, 0)),
                value(base),
                value(head),
                change,
            ]);
        }
        block(
            format!("What changes, {}", self.findings.workload.evidence_word()),
            &[
                ("measured", false),
                (&base.policy, true),
                (&head.policy, true),
                ("difference", true),
            ],
            lines,
        )
    }

    fn moves_block(&self) -> Block {
        let moves = &self.versus.moves;
        let name = |route: &Option<String>| route.clone().unwrap_or_else(|| "nobody".to_owned());
        let line = |from: String, to: String, requests: u64, share: f64| {
            vec![from, to, whole(requests), percent_exact(share)]
        };
        let mut lines: Vec<Vec<String>> = moves
            .iter()
            .take(MOVES_MAX)
            .map(|one| line(name(&one.from), name(&one.to), one.requests, one.share))
            .collect();
        let rest = || moves.iter().skip(MOVES_MAX);
        if rest().next().is_some() {
            let (requests, share) = (
                rest().map(|one| one.requests).sum(),
                rest().map(|one| one.share).sum(),
            );
            lines.push(line("others".to_owned(), String::new(), requests, share));
        }
        block(
            format!("Rerouted: {} of requests", share(&self.rerouted())),
            &[
                ("from", false),
                ("to", false),
                ("requests", true),
                ("share", true),
            ],
            lines,
        )
    }

    fn violations_block(&self) -> Block {
        let name = |name: &Option<String>| name.clone().unwrap_or_else(|| "none".to_owned());
        let lines = self.versus.violations.iter().take(SHOWN_MAX).map(|one| {
            vec![
                name(&one.tenant),
                name(&one.data_class),
                one.route.clone(),
                whole(one.requests),
                one.example.clone(),
            ]
        });
        block(
            "Requests that are sent, or would be after a failure, where they may not go".to_owned(),
            &[
                ("tenant", false),
                ("data class", false),
                ("route", false),
                ("requests", true),
                ("such as", false),
            ],
            lines.collect(),
        )
    }

    fn keys_block(&self) -> Block {
        let changed = self.options.changed.as_deref().unwrap_or_default();
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "(absent)".to_owned());
        let mut lines: Vec<Vec<String>> = changed
            .iter()
            .take(CHANGED_MAX)
            .map(|one| {
                vec![
                    one.file.clone(),
                    one.key.clone(),
                    value(&one.before),
                    value(&one.after),
                ]
            })
            .collect();
        if changed.len() > CHANGED_MAX {
            let more = format!("and {} more", changed.len() - CHANGED_MAX);
            lines.push(vec![more, String::new(), String::new(), String::new()]);
        }
        block(
            format!("Changed keys: {}", changed.len()),
            &[
                ("file", false),
                ("key", false),
                ("base", false),
                ("head", false),
            ],
            lines,
        )
    }

    fn summary(&self) -> String {
        let of = |result| {
            let verdicts = self.verdicts.iter();
            verdicts.filter(|verdict| verdict.result == result).count()
        };
        let mut parts = vec![format!(
            "{} of {} pass",
            of(GateResult::Pass),
            self.verdicts.len()
        )];
        for result in [GateResult::Fail, GateResult::Inconclusive] {
            if of(result) > 0 {
                let verb = match (result, of(result)) {
                    (GateResult::Fail, 1) => "fails",
                    (GateResult::Fail, _) => "fail",
                    (_, 1) => "is inconclusive",
                    _ => "are inconclusive",
                };
                parts.push(format!("{} {verb}", of(result)));
            }
        }
        let next = match self.result() {
            GateResult::Fail => {
                " Look at the first line of the table: it says what failed and where.".to_owned()
            }
            GateResult::Inconclusive => {
                let beyond = self
                    .verdicts
                    .iter()
                    .any(|verdict| verdict.why.ends_with("show it worse"));
                let most = self
                    .verdicts
                    .iter()
                    .filter_map(|verdict| verdict.needed)
                    .max();
                match most {
                    _ if self.hangs_on_one_draw() => " Run it with --replicates 20.".to_owned(),
                    Some(n) if beyond => format!(
                        " The slice that needs most takes about {} graded requests, and some look worse already: mend them, or widen the margin.",
                        about(n)
                    ),
                    Some(n) => format!(
                        " The slice that needs most takes about {} graded requests: add data, widen the margin, or guard fewer slices.",
                        about(n)
                    ),
                    None if self.verdicts.iter().any(|verdict| {
                        verdict.question == "evidence" && verdict.result != GateResult::Pass
                    }) =>
                    {
                        " Gate on recorded outcomes, or ask for less with --min-evidence."
                            .to_owned()
                    }
                    None => " Add data, widen the margin, or guard fewer slices.".to_owned(),
                }
            }
            GateResult::Pass => String::new(),
        };
        format!("{}: {}.{next}", self.in_words(), parts.join(", "))
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.findings.notes.clone();
        if self.findings.workload.evidence == Evidence::Simulated {
            notes.push(
                "simulated: the verdicts hold for the world as the workload file describes it, and say nothing about real models".to_owned(),
            );
        }
        notes.push(
            "every verdict has the error rate of the whole: as all must pass, a change that is worse somewhere by more than the margin passes with at most that probability (intersection-union test)".to_owned(),
        );
        if self.hangs_on_one_draw() {
            notes.push(
                "a policy that learns from examples, or sticks to users, draws once for many requests: with one replicate no verdict on accuracy passes, for it would hold for that draw alone".to_owned(),
            );
        }
        let unused = &self.versus.unused_rules;
        if !unused.is_empty() {
            notes.push(format!(
                "no request of this workload is bound by {}: the gate says nothing about {}",
                listed(unused.iter().map(String::as_str)),
                if unused.len() == 1 {
                    "that rule"
                } else {
                    "those rules"
                }
            ));
        }
        let unknown = &self.versus.unknown_routes;
        if self.options.changed.is_some() && !unknown.is_empty() {
            notes.push(format!(
                "the base does not know the endpoint of {}: where its data may go is believed as the head says it",
                listed(unknown.iter().map(String::as_str))
            ));
        }
        if self.options.changed.is_some() {
            notes.push(
                "both configurations see the same requests and, on routes of the same name, the same answers".to_owned(),
            );
        }
        notes
    }

    fn facts(&self) -> Map<String, Value> {
        let verdicts: Vec<Value> = self
            .verdicts
            .iter()
            .map(|verdict| {
                json!({
                    "question": verdict.question,
                    "task": verdict.task,
                    "tenant": verdict.tenant,
                    "result": verdict.result.word(),
                    "estimate": verdict.estimate,
                    "measured": verdict.measured,
                    "why": verdict.why,
                    "needed_n": verdict.needed,
                })
            })
            .collect();
        let moves: Vec<Value> = self
            .versus
            .moves
            .iter()
            .map(|one| json!({ "from": one.from, "to": one.to, "requests": one.requests }))
            .collect();
        let violations: Vec<Value> = self
            .versus
            .violations
            .iter()
            .map(|one| {
                json!({
                    "tenant": one.tenant,
                    "data_class": one.data_class,
                    "route": one.route,
                    "requests": one.requests,
                    "example": one.example,
                })
            })
            .collect();
        let changed = self.options.changed.as_ref().map(|changed| {
            let keys = changed.iter().map(|one| {
                json!({ "file": one.file, "key": one.key, "base": one.before, "head": one.after })
            });
            keys.collect::<Vec<Value>>()
        });
        let side = |row: Option<&Row>| {
            row.map(|row| {
                let metrics = METRICS.iter().zip(&row.metrics);
                let metrics: Map<String, Value> = metrics
                    .map(|(metric, estimate)| (metric.name.to_owned(), json!(estimate)))
                    .collect();
                json!({ "policy": row.policy, "kind": row.kind, "metrics": metrics })
            })
        };
        let paired = self.findings.paired.last();
        let mut facts = Map::new();
        let mut put = |name: &str, value: Value| {
            facts.insert(name.to_owned(), value);
        };
        put("result", json!(self.result().word()));
        put("evidence", json!(self.findings.workload.evidence_word()));
        put("workload", json!(self.findings.workload.name));
        put("requests", json!(self.versus.requests));
        put("margin", json!(self.findings.margin));
        put("alpha", json!(self.findings.alpha));
        put("base", json!(side(self.base())));
        put("head", json!(side(self.head())));
        put(
            "accuracy_difference",
            json!(paired.map(|one| &one.accuracy_difference)),
        );
        put(
            "usd_per_1k_difference",
            json!(paired.map(|one| &one.usd_per_1k_difference)),
        );
        put("verdicts", Value::Array(verdicts));
        put("rerouted", json!(self.rerouted()));
        put("moves", Value::Array(moves));
        put("violations", Value::Array(violations));
        put("changed_keys", json!(changed));
        facts
    }

    fn records(&self) -> Vec<Map<String, Value>> {
        let record = |verdict: &GateVerdict| {
            let estimate = verdict.estimate.as_ref();
            let record = json!({
                "result": verdict.result.word(),
                "question": verdict.question,
                "task": verdict.task,
                "tenant": verdict.tenant,
                "value": estimate.and_then(|one| one.value),
                "low": estimate.and_then(|one| one.low),
                "high": estimate.and_then(|one| one.high),
                "level": estimate.map(|one| one.level),
                "n": estimate.map(|one| one.n),
                "method": estimate.map(|one| one.method),
                "needed_n": verdict.needed,
                "why": verdict.why,
            });
            match record {
                Value::Object(record) => record,
                _ => Map::new(),
            }
        };
        self.verdicts.iter().map(record).collect()
    }
}

/// A metric's name in words.
fn spoken(metric: &str) -> String {
    match metric {
        "usd_per_1k" => "USD per 1,000".to_owned(),
        "mirror_usd_per_1k" => "mirrors, USD per 1,000".to_owned(),
        other => other.replace('_', " "),
    }
}
