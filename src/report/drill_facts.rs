//! A drill as data: everything in JSON, and the time lines of the first replicate as records.

use serde_json::{Map, Value, json};

use super::drill::{Day, Drill, DrillRow, HARMS, MEASURES, Measure, RouteRow};
use super::drill_incidents::{Occasion, Recovery};
use super::drill_words::{effect_key, reason_key, reason_kind};
use crate::router::{BreakerChange, FaultKind};
use crate::sim::{Change, Counts, Lost, Reason, RouteBin};
use crate::stats::Estimate;
use crate::timeline::{Dimension, Effect};
use crate::units::{Duration, Instant};

fn seconds(at: Instant) -> f64 {
    at.since(Instant::ZERO).as_secs_f64()
}

/// A limit of the SLO; `null` if there is none.
fn limit(limit: Duration) -> Value {
    if limit == Duration::MAX {
        Value::Null
    } else {
        json!(limit.as_secs_f64())
    }
}

fn measures(measures: &[Measure], estimates: &[Estimate]) -> Value {
    let named = measures.iter().zip(estimates);
    Value::Object(
        named
            .map(|(measure, estimate)| (measure.name.to_owned(), json!(estimate)))
            .collect(),
    )
}

impl Drill {
    /// Everything.
    pub(super) fn facts(&self) -> Map<String, Value> {
        let facts = json!({
            "workload": {
                "name": self.workload.name,
                "requests": self.workload.requests,
                "replicates": self.workload.replicates,
                "shared_rows": self.workload.shared_rows,
                "evidence": self.workload.evidence_word(),
            },
            "level": self.level,
            "span_s": self.span().as_secs_f64(),
            "slo": { "ttft_s": limit(self.slo.ttft), "total_s": limit(self.slo.total) },
            "has_calm_day": self.has_calm,
            "routes": self.routes,
            "limits": self
                .limits
                .iter()
                .map(|one| json!({ "name": one.name, "routes": one.routes }))
                .collect::<Vec<_>>(),
            "incidents": self
                .occasions
                .iter()
                .enumerate()
                .map(|(index, one)| occasion(one, index < self.common))
                .collect::<Vec<_>>(),
            "policies": self.rows.iter().map(|row| self.policy(row)).collect::<Vec<_>>(),
        });
        match facts {
            Value::Object(facts) => facts,
            _ => Map::new(),
        }
    }

    fn policy(&self, row: &DrillRow) -> Value {
        json!({
            "policy": row.policy,
            "kind": row.kind,
            "control": row.control,
            "drill": measures(MEASURES, &row.drill.measures),
            "calm": row.calm.as_ref().map(|calm| measures(MEASURES, &calm.measures)),
            "harm": (!row.harms.is_empty()).then(|| measures(HARMS, &row.harms)),
            "counts": counts(&row.sums),
            "residency_violations": row.residency_violations,
            "in_flight_max": row.in_flight_max,
            "incidents": row.recoveries.iter().map(recovery).collect::<Vec<_>>(),
            "unserved": row.unserved.iter().map(|lost| self.lost(lost)).collect::<Vec<_>>(),
            "routes": row.routes.iter().map(|route| self.route_facts(route)).collect::<Vec<_>>(),
            "time_line": self.time_line(&row.drill),
            "calm_time_line": row.calm.as_ref().map(|calm| self.time_line(calm)),
        })
    }

    fn lost(&self, lost: &Lost) -> Value {
        let (limit, what) = match lost.reason {
            Reason::Saturated(index, what) => {
                (self.limits.get(usize::from(index)), Some(what.short()))
            }
            _ => (None, None),
        };
        json!({
            "class": self.classes.get(usize::from(lost.class)),
            "reason": reason_key(lost.reason),
            "in_words": self.reason(lost.reason),
            "kind": reason_kind(lost.reason).map(FaultKind::name),
            "limit": limit.map(|limit| &limit.name),
            "used_up": what,
            "requests": lost.requests,
        })
    }

    fn route_facts(&self, row: &RouteRow) -> Value {
        let sum = &row.sum;
        let faults: Map<String, Value> = FaultKind::ALL
            .into_iter()
            .map(|kind| (kind.name().to_owned(), json!(sum.faults[kind as usize])))
            .collect();
        let refused: Map<String, Value> = Dimension::ALL
            .into_iter()
            .map(|what| (what.short().to_owned(), json!(sum.refused[what as usize])))
            .collect();
        let quantile = |share| sum.ttft.quantile(share).map(Duration::as_secs_f64);
        json!({
            "route": self.route(row.route),
            "attempts": sum.attempts,
            "failed": sum.faults.iter().sum::<u64>(),
            "faults": faults,
            "refused": refused,
            "by_incident": sum.by_incident,
            "hung_up": sum.hung_up,
            "cut": sum.cut,
            "served": sum.served,
            "input_tokens": (sum.tokens_unknown == 0).then_some(sum.input_tokens),
            "output_tokens": (sum.tokens_unknown == 0).then_some(sum.output_tokens),
            "ttft_p50_s": quantile(0.50),
            "ttft_p95_s": quantile(0.95),
            "ttft_p99_s": quantile(0.99),
            "queued_s": sum.queued.as_secs_f64(),
            "breaker_opened": sum.opened,
            "breaker_open_s": sum.breaker_open.as_secs_f64(),
        })
    }

    /// The time line of a first replicate.
    fn time_line(&self, day: &Day) -> Value {
        let passage = &day.first;
        let width = passage.bin;
        let start = |index: usize| index as f64 * width.as_secs_f64();
        let bins: Vec<Value> = passage
            .bins
            .iter()
            .enumerate()
            .map(|(index, bin)| {
                let mut object = Map::new();
                object.insert("start_s".to_owned(), json!(start(index)));
                object.extend(counts(bin));
                Value::Object(object)
            })
            .collect();
        let routes: Vec<Value> = passage
            .routes
            .iter()
            .enumerate()
            .filter(|(_, route)| route.attempts > 0)
            .map(|(index, route)| {
                let bins: Vec<Value> = route
                    .bins
                    .iter()
                    .enumerate()
                    .map(|(bin, one)| {
                        let mut object = Map::new();
                        object.insert("start_s".to_owned(), json!(start(bin)));
                        object.extend(route_bin(one));
                        Value::Object(object)
                    })
                    .collect();
                json!({ "route": self.route(index), "bins": bins })
            })
            .collect();
        json!({
            "bin_s": width.as_secs_f64(),
            "bins": bins,
            "routes": routes,
            "breakers": passage.changes.iter().map(|one| self.change(one)).collect::<Vec<_>>(),
            "breakers_dropped": passage.changes_dropped,
        })
    }

    fn change(&self, change: &Change) -> Value {
        let (what, until) = match change.change {
            BreakerChange::Opened { until } => ("opened", Some(seconds(until))),
            BreakerChange::HalfOpen => ("half_open", None),
            BreakerChange::TrialFreed => ("trial_freed", None),
            BreakerChange::Closed => ("closed", None),
        };
        json!({
            "at_s": seconds(change.at),
            "route": self.route(usize::from(change.route.0)),
            "change": what,
            "until_s": until,
        })
    }

    /// One record per policy, route and bin of the first replicate. Records without a route are about all
    /// requests of the policy, by when they arrived; those of a route about its attempts, by when they
    /// were sent.
    pub(super) fn records(&self) -> Vec<Map<String, Value>> {
        let mut records = Vec::new();
        for row in &self.rows {
            self.records_of(row, &mut records);
        }
        records
    }

    fn records_of(&self, row: &DrillRow, records: &mut Vec<Map<String, Value>>) {
        let passage = &row.drill.first;
        let calm = row.calm.as_ref().map(|calm| &calm.first);
        let head = |route: Option<&str>, bin: usize| {
            let mut record = Map::new();
            let mut add = |name: &str, value: Value| {
                record.insert(name.to_owned(), value);
            };
            add("policy", json!(row.policy));
            add("control", json!(row.control));
            add("route", json!(route));
            add("start_s", json!(bin as f64 * passage.bin.as_secs_f64()));
            add("width_s", json!(passage.bin.as_secs_f64()));
            record
        };
        let extend = |record: &mut Map<String, Value>, counts: Option<Map<String, Value>>| {
            for name in COUNTS {
                let value = counts.as_ref().and_then(|counts| counts.get(name)).cloned();
                record.insert(name.to_owned(), value.unwrap_or_default());
            }
        };
        let of_route = |record: &mut Map<String, Value>, bin: Option<Map<String, Value>>| {
            for name in ROUTE_BIN {
                // Both have attempts.
                if name != "attempts" || bin.is_some() {
                    let value = bin.as_ref().and_then(|bin| bin.get(name)).cloned();
                    record.insert(name.to_owned(), value.unwrap_or_default());
                }
            }
        };
        for (index, bin) in passage.bins.iter().enumerate() {
            let mut record = head(None, index);
            let then = calm.and_then(|calm| calm.bins.get(index));
            extend(&mut record, Some(counts(bin)));
            record.insert("calm_served".to_owned(), json!(then.map(|bin| bin.served)));
            record.insert("calm_in_slo".to_owned(), json!(then.map(|bin| bin.in_slo)));
            of_route(&mut record, None);
            records.push(record);
        }
        for route in &row.routes {
            let Some(all) = passage.routes.get(route.route) else {
                continue;
            };
            for (index, bin) in all.bins.iter().enumerate() {
                let mut record = head(Some(self.route(route.route)), index);
                extend(&mut record, None);
                for name in ["calm_served", "calm_in_slo"] {
                    record.insert(name.to_owned(), Value::Null);
                }
                of_route(&mut record, Some(route_bin(bin)));
                records.push(record);
            }
        }
    }
}

fn occasion(one: &Occasion, in_all: bool) -> Value {
    let (kind, share, factor) = match one.effect {
        Effect::Fail { kind, share } => (Some(kind.name()), Some(share.get()), None),
        Effect::Slow { factor } => (None, None, Some(factor)),
        Effect::Cut { share } => (None, Some(share.get()), None),
    };
    json!({
        "name": one.name,
        "routes": one.route_names,
        "from_s": seconds(one.from),
        "until_s": seconds(one.until),
        "effect": effect_key(one.effect),
        "kind": kind,
        "share": share,
        "factor": factor,
        "in_every_replicate": in_all,
    })
}

fn recovery(one: &Recovery) -> Value {
    let times: Vec<Option<f64>> = one
        .times
        .iter()
        .map(|time| time.map(Duration::as_secs_f64))
        .collect();
    json!({
        "harmed": one.harmed,
        "time_to_recover_s": one.mean_s,
        "by_replicate_s": times,
    })
}

/// Names of a policy's counts.
const COUNTS: [&str; 11] = [
    "requests",
    "served",
    "in_slo",
    "fallback",
    "escalated",
    "undetermined",
    "attempts",
    "retries",
    "harmed",
    "lost",
    "spoilt",
];

fn counts(one: &Counts) -> Map<String, Value> {
    let values = [
        one.requests,
        one.served,
        one.in_slo,
        one.fallback,
        one.escalated,
        one.undetermined,
        one.attempts,
        one.retries,
        one.harmed,
        one.lost,
        one.spoilt,
    ];
    let named = COUNTS.into_iter().zip(values);
    named
        .map(|(name, value)| (name.to_owned(), json!(value)))
        .collect()
}

/// Names of what a route's bin holds.
const ROUTE_BIN: [&str; 6] = [
    "attempts",
    "failed",
    "refused",
    "mean_ttft_s",
    "breaker_open_s",
    "in_flight_max",
];

fn route_bin(one: &RouteBin) -> Map<String, Value> {
    let answered = one.attempts.saturating_sub(one.failed);
    let mean = (answered > 0).then(|| one.ttft_sum.0 as f64 / answered as f64 / 1e6);
    let values = [
        json!(one.attempts),
        json!(one.failed),
        json!(one.refused),
        json!(mean),
        json!(one.breaker_open.as_secs_f64()),
        json!(one.in_flight_max),
    ];
    let named = ROUTE_BIN.into_iter().zip(values);
    named
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
