//! A sweep written down: the blocks, facts and records of its [`Sheet`].

use serde_json::{Map, Number, Value, json};

use super::compare::Paired;
use super::format::{
    UNKNOWN, decimal, margin_points, percent_digits, points, share, usd, usd_value, whole,
};
use super::sheet::{Figure, Sheet, block};
use super::sweep::{Standing, Sweep, SweepPoint};
use crate::stats::{Estimate, Limits, NonInferiority};
use crate::sweep::Scope;

/// Name and version of the JSON's shape. A change that breaks a reader gets a new number.
const SCHEMA: &str = "routelab.sweep/1";
/// Share of the draws from which on a place on the front counts as sure, in the summary.
const SURE: f64 = 0.95;
/// Most rows of the block of dominated points.
const DOMINATED_MAX: usize = 20;
/// Most worlds whose single routes are in the table.
const WORLDS_MAX: usize = 4;
/// Points named in the summary before "and 12 more".
const NAMED_MAX: usize = 6;

impl Sweep {
    /// Everything the sweep found, as a document of schema `routelab.sweep/1`.
    #[must_use]
    pub fn sheet(&self) -> Sheet {
        let mut blocks = vec![self.points_block()];
        let dominated = self.dominated_block();
        blocks.extend(dominated);
        blocks.push(self.references_block());
        blocks.retain(|block| !block.lines.is_empty());
        Sheet {
            schema: SCHEMA,
            title: self.title(),
            blocks,
            file: None,
            figures: vec![Figure {
                title: "Cost and accuracy of every point".to_owned(),
                about: "Cost to the right, accuracy upwards, each with its interval; squares are single routes. The same numbers are in the tables.".to_owned(),
                svg: self.plot(),
            }],
            summary: self.summary(),
            notes: self.all_notes(),
            facts: self.facts(),
            records: self.records(),
        }
    }

    /// What was run, in one line.
    pub(super) fn title(&self) -> String {
        let workload = &self.workload;
        let replicates = match (workload.replicates, workload.shared_rows) {
            (0 | 1, _) => String::new(),
            (n, true) => format!(", {} replicates of the policy's own draws", whole(n)),
            (n, false) => format!(", {} replicates", whole(n)),
        };
        let requests = if self.requests_max > workload.requests {
            format!(
                "{} to {}",
                whole(workload.requests),
                whole(self.requests_max)
            )
        } else {
            whole(workload.requests)
        };
        format!(
            "{} on {}, {} of {requests} requests each, {}{replicates}, {} % intervals",
            self.policy,
            workload.name,
            many(self.points.len(), "point"),
            workload.evidence_word(),
            margin_points(self.level)
        )
    }

    /// Whether points share a world with others, so that there are fronts.
    pub(super) fn has_front(&self) -> bool {
        self.grid.policies.len() > 1
    }

    fn has_margins(&self) -> bool {
        self.grid
            .parameters
            .iter()
            .any(|parameter| parameter.scope == Scope::Margin)
    }

    fn points_block(&self) -> super::layout::Block {
        let labels = self.grid.labels();
        let mut titles: Vec<(&str, bool)> =
            labels.iter().map(|label| (label.as_str(), true)).collect();
        titles.extend([("accuracy", true), ("USD per 1,000", true)]);
        // Two parameters leave no room for it on a terminal.
        let calls = labels.len() == 1;
        if calls {
            titles.push(("calls", true));
        }
        if self.baseline.is_some() {
            titles.extend([("difference", true), ("verdict", false)]);
        }
        if self.has_front() {
            titles.push(("point front", true));
        }
        let rows = self.points.iter().map(|point| {
            let mut cells = point.values.clone();
            cells.push(share(&point.standing.accuracy));
            cells.push(usd(&point.standing.usd_per_1k));
            if calls {
                let calls = point.standing.calls_per_request.value;
                cells.push(calls.map_or_else(|| UNKNOWN.to_owned(), |v| decimal(v, 2)));
            }
            if self.baseline.is_some() {
                match &point.paired {
                    Some(paired) => {
                        cells.push(points(&paired.accuracy_difference));
                        cells.push(paired.verdict.word().to_owned());
                    }
                    None => cells.extend([String::new(), "the baseline".to_owned()]),
                }
            }
            if self.has_front() {
                let sure = point
                    .front_probability
                    .map_or_else(String::new, |p| format!(" {} %", percent_digits(p)));
                cells.push(format!(
                    "{}{sure}",
                    if point.on_front { "yes" } else { "no" }
                ));
            }
            cells
        });
        let evidence = self.workload.evidence_word();
        let heading = match (&self.baseline, self.has_margins()) {
            (Some(baseline), false) => format!(
                "Points, {evidence} (difference: accuracy in points from {baseline} on the same requests; margin {} points, one-sided alpha {})",
                self.points
                    .first()
                    .map_or_else(String::new, |point| margin_points(point.margin)),
                self.alpha
            ),
            (Some(baseline), true) => format!(
                "Points, {evidence} (difference: accuracy in points from {baseline} on the same requests; one-sided alpha {})",
                self.alpha
            ),
            (None, _) => format!("Points, {evidence}"),
        };
        block(heading, &titles, rows.collect())
    }

    fn dominated_block(&self) -> Option<super::layout::Block> {
        let labels = self.grid.labels();
        let mut titles: Vec<(&str, bool)> =
            labels.iter().map(|label| (label.as_str(), true)).collect();
        titles.extend([("dominated by", false), ("in % of the draws", true)]);
        let rows: Vec<Vec<String>> = self
            .points
            .iter()
            .filter_map(|point| {
                let by = point.dominated_by.as_ref()?;
                let mut cells = point.values.clone();
                cells.push(by.name.clone());
                let share = by.probability.map(percent_digits);
                cells.push(share.unwrap_or_else(|| UNKNOWN.to_owned()));
                Some(cells)
            })
            .collect();
        let cut = if rows.len() > DOMINATED_MAX {
            format!(
                " ({DOMINATED_MAX} of {}; all are in CSV and JSON)",
                rows.len()
            )
        } else {
            String::new()
        };
        let heading = format!(
            "Dominated: another point or a single route costs no more and is no less accurate{cut}"
        );
        let shown: Vec<Vec<String>> = rows.into_iter().take(DOMINATED_MAX).collect();
        (!shown.is_empty()).then(|| block(heading, &titles, shown))
    }

    fn references_block(&self) -> super::layout::Block {
        let several = self.grid.worlds.len() > 1;
        let mut titles = vec![("single route", false)];
        if several {
            titles.push(("where", false));
        }
        titles.extend([("accuracy", true), ("USD per 1,000", true)]);
        let shown = self.references.iter();
        let shown = shown.filter(|one| one.world < WORLDS_MAX);
        let rows = shown.map(|one| {
            let mut cells = vec![one.name.clone()];
            if several {
                cells.push(self.grid.in_words(&self.grid.worlds[one.world]));
            }
            cells.extend([share(&one.accuracy), usd(&one.usd_per_1k)]);
            cells
        });
        let rows = rows.collect();
        let cut = if self.grid.worlds.len() > WORLDS_MAX {
            format!(" (the first {WORLDS_MAX} worlds; all are in CSV and JSON)")
        } else {
            String::new()
        };
        block(format!("For reference{cut}"), &titles, rows)
    }

    /// The name of a point in its whole grid.
    fn name(&self, point: &SweepPoint) -> String {
        let labels = self.grid.labels();
        let words: Vec<String> = labels
            .iter()
            .zip(&point.values)
            .map(|(label, value)| format!("{label} = {value}"))
            .collect();
        words.join(", ")
    }

    fn named(&self, points: &[&SweepPoint]) -> String {
        let several = self.grid.parameters.len() > 1;
        let name = |point: &&SweepPoint| {
            if several {
                format!("({})", self.name(point))
            } else {
                point.values.join(", ")
            }
        };
        let shown: Vec<String> = points.iter().take(NAMED_MAX).map(name).collect();
        let more = points.len() - shown.len();
        let head = if several {
            String::new()
        } else {
            format!("{} = ", self.grid.labels().join(", "))
        };
        let tail = if more > 0 {
            format!(" and {} more", whole(more as u64))
        } else {
            String::new()
        };
        format!("{head}{}{tail}", shown.join(", "))
    }

    fn summary(&self) -> String {
        let mut sentences = Vec::new();
        if self.has_front() {
            let on: Vec<&SweepPoint> = self.points.iter().filter(|point| point.on_front).collect();
            let sure: Vec<&SweepPoint> = on
                .iter()
                .copied()
                .filter(|point| point.front_probability.is_some_and(|p| p >= SURE))
                .collect();
            let of = if self.grid.worlds.len() > 1 {
                "their worlds' point fronts"
            } else {
                "the point front"
            };
            let how_sure = match sure.len() {
                _ if self.units < 2 => "too few requests to say how surely".to_owned(),
                0 => format!("none of them in {} % of the draws", SURE * 100.0),
                n if n == on.len() => {
                    format!("all of them in at least {} % of the draws", SURE * 100.0)
                }
                _ => format!(
                    "in at least {} % of the draws: {}",
                    SURE * 100.0,
                    self.named(&sure)
                ),
            };
            sentences.push(format!(
                "{} of {} points are on {of}; {how_sure}.",
                whole(on.len() as u64),
                whole(self.points.len() as u64)
            ));
            // Of its front, only a single route can dominate a point.
            let mut beaten = on.clone();
            beaten.retain(|point| point.dominated_by.is_some());
            if !beaten.is_empty() {
                let number = whole(beaten.len() as u64);
                let which = self.named(&beaten);
                sentences.push(format!(
                    "Single routes dominate {number} of these: {which}."
                ));
            }
        }
        if let (Some(baseline), false) = (&self.baseline, self.has_margins()) {
            // Nobody chooses among worlds, so there the cheapest one is of no use.
            if self.grid.worlds.len() == 1 {
                sentences.extend(self.cheapest(baseline));
            } else {
                sentences.extend(self.within_margin(baseline));
            }
        }
        if sentences.is_empty() {
            sentences.push(format!(
                "{} in {}.",
                many(self.points.len(), "point"),
                many(self.grid.worlds.len(), "world")
            ));
        }
        sentences.join(" ")
    }

    /// The cheapest point that was shown to be within the margin.
    fn cheapest(&self, baseline: &str) -> Option<String> {
        let margin = margin_points(self.points.first()?.margin);
        let shown = self
            .points
            .iter()
            .filter(|point| {
                let verdict = point.paired.as_ref().map(|paired| paired.verdict);
                verdict == Some(NonInferiority::NonInferior)
            })
            .filter_map(|point| Some((point.standing.usd_per_1k.value?, point)))
            .min_by(|(a, _), (b, _)| a.total_cmp(b));
        Some(match shown {
            Some((cost, point)) => format!(
                "Cheapest point shown to be no more than {margin} points less accurate than {baseline}: {}, {} USD per 1,000.",
                self.named(&[point]),
                usd_value(cost)
            ),
            None => format!(
                "No point was shown to be no more than {margin} points less accurate than {baseline}."
            ),
        })
    }

    /// How many points were shown to be within the margin.
    fn within_margin(&self, baseline: &str) -> Option<String> {
        let shown = self.points.iter().filter(|point| {
            let verdict = point.paired.as_ref().map(|paired| paired.verdict);
            verdict == Some(NonInferiority::NonInferior)
        });
        Some(format!(
            "{} of {} points were shown to be no more than {} points less accurate than {baseline}.",
            whole(shown.count() as u64),
            whole(self.points.len() as u64),
            margin_points(self.points.first()?.margin)
        ))
    }

    fn all_notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        notes.push("all points saw the same requests with the same draws, so differences between them are less uncertain than their intervals suggest".to_owned());
        if self.units < 2 {
            notes.push("there are too few requests to resample".to_owned());
        } else if self.has_front() {
            notes.push(format!(
                "point front: no other point costs no more and is no less accurate; single routes are not counted, and those that dominate a point are named apart; the share is of {} draws of {} with repetition, the same for all points",
                whole(u64::from(self.draws)),
                self.resampled
            ));
        }
        if self.grid.worlds.len() > 1 && self.has_front() {
            notes.push(
                "points are compared within a world: nobody chooses the workload or the prices"
                    .to_owned(),
            );
        }
        let family = self.grid.policies.len();
        if family > 1 && self.baseline.is_some() {
            let each = match (self.grid.worlds.len() > 1, self.has_margins()) {
                (false, false) => "",
                (true, false) => " of each world",
                (false, true) => " at each margin",
                (true, true) => " of each world at each margin",
            };
            notes.push(format!(
                "verdicts are by Holm over the {} points{each} at one-sided alpha {}, so that the best of them may be picked; intervals are for one point each, and limits that hold for all points at once are in JSON and CSV (`band`)",
                whole(family as u64),
                self.alpha
            ));
        }
        notes.extend(self.notes.iter().cloned());
        notes
    }

    fn facts(&self) -> Map<String, Value> {
        let labels = self.grid.labels();
        let parameters: Vec<Value> = self
            .grid
            .parameters
            .iter()
            .zip(&labels)
            .map(|(one, label)| {
                let values: Vec<Value> = one.values.iter().map(|value| number(value)).collect();
                json!({ "path": one.path, "label": label, "values": values })
            })
            .collect();
        let worlds: Vec<Value> = self
            .grid
            .worlds
            .iter()
            .map(|settings| {
                let settings: Map<String, Value> = settings
                    .iter()
                    .map(|&(parameter, value)| {
                        let parameter = &self.grid.parameters[parameter];
                        (parameter.path.clone(), number(&parameter.values[value]))
                    })
                    .collect();
                Value::Object(settings)
            })
            .collect();
        let points: Vec<Value> = self
            .points
            .iter()
            .map(|point| self.point_fact(point))
            .collect();
        let references: Vec<Value> = self.references.iter().map(standing_fact).collect();
        let dominance: Vec<Value> = self
            .dominance
            .iter()
            .map(|one| json!({ "world": one.world, "by": one.by, "of": one.of, "probability": one.probability }))
            .collect();
        let facts = json!({
            "policy": self.policy,
            "workload": {
                "name": self.workload.name,
                "requests": self.workload.requests,
                "replicates": self.workload.replicates,
                "evidence": self.workload.evidence_word(),
            },
            "parameters": parameters,
            "worlds": worlds,
            "baseline": self.baseline,
            "level": self.level,
            "alpha": self.alpha,
            "resampling": {
                "units": self.units,
                "what": self.resampled,
                "draws": self.draws,
            },
            "points": points,
            "references": references,
            "dominance": dominance,
        });
        match facts {
            Value::Object(facts) => facts,
            _ => Map::new(),
        }
    }

    fn point_fact(&self, point: &SweepPoint) -> Value {
        let values: Map<String, Value> = self
            .grid
            .parameters
            .iter()
            .zip(&point.values)
            .map(|(parameter, value)| (parameter.path.clone(), number(value)))
            .collect();
        let paired = point.paired.as_ref().map(|paired| {
            json!({
                "baseline": paired.baseline,
                "accuracy_difference": paired.accuracy_difference,
                "usd_per_1k_difference": paired.usd_per_1k_difference,
                "n11": paired.n11,
                "n10": paired.n10,
                "n01": paired.n01,
                "n00": paired.n00,
                "requests": paired.requests,
                "left_out": paired.left_out,
                "margin": point.margin,
                "alpha": self.alpha,
                "verdict": paired.verdict.word(),
                "p": paired.p.map(super::json::tails),
                "p_holm": paired.p_holm.map(super::json::tails),
                "family": self.grid.policies.len(),
            })
        });
        let mut fact = Map::new();
        fact.insert("values".to_owned(), Value::Object(values));
        if let Value::Object(standing) = standing_fact(&point.standing) {
            fact.extend(standing);
        }
        fact.insert("paired".to_owned(), json!(paired));
        fact.insert(
            "front".to_owned(),
            json!({
                "on": point.on_front,
                "probability": point.front_probability,
                "dominated_by": point.dominated_by.as_ref().map(|by| json!({
                    "name": by.name,
                    "probability": by.probability,
                })),
            }),
        );
        fact.insert(
            "band".to_owned(),
            json!({
                "accuracy": point.accuracy_band.map(limits_fact),
                "usd_per_1k": point.usd_per_1k_band.map(limits_fact),
            }),
        );
        Value::Object(fact)
    }

    /// One record for each point, then one for each reference, whose values are its world's.
    fn records(&self) -> Vec<Map<String, Value>> {
        let points = self.points.iter().map(|point| {
            let values = point.values.iter().map(|value| number(value)).collect();
            self.record("point", values, &point.standing, Some(point))
        });
        let references = self.references.iter().map(|one| {
            let mut values = vec![Value::Null; self.grid.parameters.len()];
            for &(parameter, value) in &self.grid.worlds[one.world] {
                values[parameter] = number(&self.grid.parameters[parameter].values[value]);
            }
            self.record("reference", values, one, None)
        });
        points.chain(references).collect()
    }

    fn record(
        &self,
        kind: &str,
        values: Vec<Value>,
        standing: &Standing,
        point: Option<&SweepPoint>,
    ) -> Map<String, Value> {
        let mut record = Map::new();
        record.insert("kind".to_owned(), json!(kind));
        record.insert("name".to_owned(), json!(standing.name));
        for (parameter, value) in self.grid.parameters.iter().zip(values) {
            record.insert(parameter.path.clone(), value);
        }
        let mut estimate = |name: &str, of: Option<&Estimate>| {
            let part = |of: fn(&Estimate) -> Option<f64>, from: Option<&Estimate>| {
                json!(from.and_then(of))
            };
            record.insert(name.to_owned(), part(|e| e.value, of));
            record.insert(format!("{name}_low"), part(|e| e.low, of));
            record.insert(format!("{name}_high"), part(|e| e.high, of));
        };
        estimate("accuracy", Some(&standing.accuracy));
        estimate("usd_per_1k", Some(&standing.usd_per_1k));
        estimate("calls_per_request", Some(&standing.calls_per_request));
        estimate("unserved", Some(&standing.unserved));
        let paired = point.and_then(|point| point.paired.as_ref());
        let difference = |of: fn(&Paired) -> &Estimate| paired.map(of);
        estimate(
            "accuracy_difference",
            difference(|one| &one.accuracy_difference),
        );
        estimate(
            "usd_per_1k_difference",
            difference(|one| &one.usd_per_1k_difference),
        );
        let mut put = |name: &str, value: Value| record.insert(name.to_owned(), value);
        put("baseline", json!(paired.map(|one| &one.baseline)));
        put("margin_of_verdict", json!(point.map(|point| point.margin)));
        put("verdict", json!(paired.map(|one| one.verdict.word())));
        put("on_front", json!(point.map(|point| point.on_front)));
        put(
            "front_probability",
            json!(point.and_then(|point| point.front_probability)),
        );
        let by = point.and_then(|point| point.dominated_by.as_ref());
        put("dominated_by", json!(by.map(|by| &by.name)));
        put(
            "dominated_probability",
            json!(by.and_then(|by| by.probability)),
        );
        let bands = [
            ("accuracy", point.and_then(|point| point.accuracy_band)),
            ("usd_per_1k", point.and_then(|point| point.usd_per_1k_band)),
        ];
        for (name, band) in bands {
            put(
                &format!("{name}_band_low"),
                json!(band.map(|band| band.low)),
            );
            put(
                &format!("{name}_band_high"),
                json!(band.map(|band| band.high)),
            );
        }
        put("level", json!(self.level));
        put("n", json!(standing.accuracy.n));
        put("evidence", json!(self.workload.evidence_word()));
        record
    }
}

fn standing_fact(one: &Standing) -> Value {
    json!({
        "name": one.name,
        "world": one.world,
        "accuracy": one.accuracy,
        "usd_per_1k": one.usd_per_1k,
        "calls_per_request": one.calls_per_request,
        "unserved": one.unserved,
        "notes": one.notes,
    })
}

fn limits_fact(limits: Limits) -> Value {
    json!({ "low": limits.low, "high": limits.high })
}

/// A parameter's value as a number if JSON has it, else as text.
fn number(text: &str) -> Value {
    serde_json::from_str::<Number>(text)
        .map_or_else(|_| Value::String(text.to_owned()), Value::Number)
}

/// So many of a thing, `1 point` and `2 points`.
fn many(count: usize, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", whole(count as u64))
}
