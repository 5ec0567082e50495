//! The report as JSON: the stable, versioned form for programs. Unknown numbers are `null`.

use super::{Findings, Outcome, Paired, Rollouts, Row, Slice};
use crate::sim::{RolloutEnd, SliceCount};
use crate::stats::Tails;
use serde_json::{Map, Value, json};

/// Name and version of the shape. A change that breaks a reader gets a new number.
const SCHEMA: &str = "routelab.findings/1";

pub(super) fn render(findings: &Findings) -> String {
    let manifest = &findings.manifest;
    let rows: Vec<Value> = findings
        .rows
        .iter()
        .map(|row| self::row(findings, row))
        .collect();
    let paired: Vec<Value> = findings
        .paired
        .iter()
        .map(|entry| self::paired(findings, entry))
        .collect();
    let mut document = json!({
        "schema": SCHEMA,
        // Outputs are listed in the manifest file only: this document is one of them.
        "manifest": {
            "version": manifest.version,
            "seed": manifest.seed,
            "inputs": manifest.inputs,
        },
        "workload": {
            "name": findings.workload.name,
            "requests": findings.workload.requests,
            "replicates": findings.workload.replicates,
            "evidence": findings.workload.evidence_word(),
        },
        "rows": rows,
        "paired": paired,
    });
    // What is not there for every run comes only where it is: readers of earlier documents find theirs.
    if let (Some(object), false) = (document.as_object_mut(), findings.slices.is_empty()) {
        let slices = findings.slices.iter().map(|one| slice(findings, one));
        object.insert("slices".to_owned(), slices.collect());
    }
    pretty(&document)
}

fn slice(findings: &Findings, slice: &Slice) -> Value {
    let rows = slice.rows.iter().map(|row| {
        json!({
            "policy": row.policy,
            "control": row.control,
            "accuracy": row.accuracy,
            "usd_per_1k": row.usd_per_1k,
            "accuracy_difference": row.accuracy_difference,
            "verdict": row.verdict.map(crate::stats::NonInferiority::word),
        })
    });
    json!({
        "by": slice.by.name(),
        "task": slice.task,
        "tenant": slice.tenant,
        "requests": slice.requests,
        "baseline": findings.baseline,
        "margin": findings.margin,
        "alpha": findings.alpha,
        "rows": rows.collect::<Vec<Value>>(),
    })
}

fn row(findings: &Findings, row: &Row) -> Value {
    let mut metrics = Map::new();
    for (metric, estimate) in super::METRICS.iter().zip(&row.metrics) {
        metrics.insert(metric.name.to_owned(), json!(estimate));
    }
    let shares: Map<String, Value> = findings
        .routes
        .iter()
        .zip(&row.final_share)
        .map(|(route, estimate)| (route.clone(), json!(estimate)))
        .collect();
    metrics.insert("final_share".to_owned(), Value::Object(shares));
    let mut object = Map::new();
    object.insert("policy".to_owned(), json!(row.policy));
    object.insert("kind".to_owned(), json!(row.kind));
    object.insert("control".to_owned(), json!(row.control));
    if !row.verifiers.is_empty() {
        object.insert("verifiers".to_owned(), json!(row.verifiers));
    }
    object.insert("metrics".to_owned(), Value::Object(metrics));
    if let Some(mix) = &row.mix {
        object.insert("mix_of".to_owned(), json!(mix.of));
        object.insert("lead_of_policy".to_owned(), json!(mix.lead));
    }
    if let Some(reason) = &row.unavailable {
        object.insert("unavailable".to_owned(), json!(reason));
    }
    let requirements: Vec<Value> = findings
        .requirements
        .iter()
        .filter(|judgement| judgement.policy == row.policy)
        .map(|judgement| {
            let needed_n = match judgement.outcome {
                Outcome::Inconclusive { needed_n, .. } => needed_n,
                Outcome::Pass | Outcome::Fail => None,
            };
            json!({
                "requirement": judgement.requirement,
                "outcome": judgement.outcome.word().to_lowercase(),
                "needed_n": needed_n,
            })
        })
        .collect();
    if !requirements.is_empty() {
        object.insert("requirements".to_owned(), Value::Array(requirements));
    }
    if let Some(shadow) = &row.shadow {
        object.insert(
            "shadow".to_owned(),
            json!({
                "mirrored": shadow.mirrored,
                "graded": shadow.graded,
                "n11": shadow.n11,
                "n10": shadow.n10,
                "n01": shadow.n01,
                "n00": shadow.n00,
                "difference": shadow.difference,
                "margin": findings.margin,
                "alpha": findings.alpha,
                "rule": shadow.rule,
                "verdict": shadow.verdict.word(),
                "promoted": shadow.promoted,
            }),
        );
    }
    if !row.traces.is_empty() {
        let traces = row.traces.iter().map(|trace| {
            json!({
                "sha256": trace.sha256,
                "attempts": trace.attempts,
                "failed": trace.failed,
                "failed_after_output": trace.failed_after_output,
                "waits": trace.waits,
                "waited_s": trace.waited.as_secs_f64(),
                "breakers_opened": trace.breakers_opened,
            })
        });
        object.insert("traces".to_owned(), traces.collect());
    }
    if let Some(rollouts) = &row.rollouts {
        object.insert("canary".to_owned(), self::rollouts(rollouts));
    }
    if let Some(saving) = &row.saving {
        object.insert(
            "saving".to_owned(),
            json!({
                "mix": saving.mix,
                "usd_per_1k": saving.usd_per_1k,
                "share": saving.share,
                "note": saving.note,
            }),
        );
    }
    if !row.notes.is_empty() {
        object.insert("notes".to_owned(), json!(row.notes));
    }
    Value::Object(object)
}

fn rollouts(rollouts: &Rollouts) -> Value {
    let mut object = Map::new();
    for (name, estimate) in rollouts.named() {
        object.insert(name.to_owned(), json!(estimate));
    }
    let count = |count: &SliceCount| json!({ "graded": count.graded, "wrong": count.wrong, "ungraded": count.ungraded });
    let runs = rollouts.runs.iter().map(|run| {
        let (outcome, request, rule) = match run.end {
            RolloutEnd::Promoted { request } => ("promoted", Some(request), None),
            RolloutEnd::Paused => ("paused", None, None),
            RolloutEnd::RolledBack { request, by } => {
                ("rolled back", Some(request), Some(by.name()))
            }
        };
        json!({
            "outcome": outcome,
            "request": request,
            "abort": rule,
            "step": run.step + 1,
            "steps": run.steps,
            "graded_at_step": run.graded_at_step,
            "slice": count(&run.slice),
            "control": run.control.as_ref().map(count),
            "extra_wrong": run.extra_wrong(),
        })
    });
    object.insert("runs".to_owned(), runs.collect());
    Value::Object(object)
}

fn paired(findings: &Findings, entry: &Paired) -> Value {
    let mut value = json!({
        "baseline": entry.baseline,
        "policy": entry.policy,
        "accuracy_difference": entry.accuracy_difference,
        "usd_per_1k_difference": entry.usd_per_1k_difference,
        "n11": entry.n11,
        "n10": entry.n10,
        "n01": entry.n01,
        "n00": entry.n00,
        "requests": entry.requests,
        "left_out": entry.left_out,
        "margin": findings.margin,
        "alpha": findings.alpha,
        "verdict": entry.verdict.word(),
        "p": entry.p.map(tails),
        "p_holm": entry.p_holm.map(tails),
        "family": findings.family,
    });
    if let (Some(object), Some(clusters)) = (value.as_object_mut(), entry.clusters) {
        object.insert("cluster".to_owned(), json!(findings.cluster));
        object.insert("clusters".to_owned(), json!(clusters));
    }
    if let (Some(object), Some(drawn)) = (value.as_object_mut(), &entry.bootstrap) {
        object.insert(
            "bootstrap".to_owned(),
            json!({
                "accuracy_difference": drawn.accuracy_difference,
                "usd_per_1k_difference": drawn.usd_per_1k_difference,
            }),
        );
    }
    value
}

/// Both p-values of a verdict.
pub(super) fn tails(tails: Tails) -> Value {
    json!({ "noninferior": tails.noninferior, "inferior": tails.inferior })
}

/// Indented JSON with a newline at its end.
pub(super) fn pretty<T: serde::Serialize>(value: &T) -> String {
    // Strings, integers, lists and maps with string keys: there is nothing that could fail.
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}
