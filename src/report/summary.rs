//! The answer in a sentence: which policy to run, how sure that is, and what is missing if nobody knows.

use super::format::{UNKNOWN, about, decimal, in_unit, margin_points, points, usd_value, whole};
use super::require::Measure;
use super::{Findings, Outcome, Paired, Row};
use crate::stats::{Needed, NonInferiority};

/// The summary. `volume` adds total costs; `minimize` asks for the best policy in one measure instead.
pub(super) fn summary(
    findings: &Findings,
    volume: Option<f64>,
    minimize: Option<Measure>,
) -> String {
    let answer = match minimize {
        Some(measure) => best_in(findings, measure, volume),
        None => cheapest(findings, volume),
    };
    if findings.rows.iter().any(|row| !row.control) {
        answer
    } else {
        "There is no policy to judge, only controls.".to_owned()
    }
}

fn usd_per_1k(row: Option<&Row>) -> Option<f64> {
    row?.metric("usd_per_1k")?.value
}

/// The cheapest policy that is not worse than the baseline by more than the margin.
fn cheapest(findings: &Findings, volume: Option<f64>) -> String {
    let Some(baseline) = &findings.baseline else {
        return "There is no baseline to compare with, so no policy is recommended.".to_owned();
    };
    let margin = margin_points(findings.margin);
    let policies: Vec<&Paired> = findings.paired.iter().filter(|p| !p.control).collect();
    let qualified: Vec<&Paired> = policies
        .iter()
        .copied()
        .filter(|p| p.verdict == NonInferiority::NonInferior)
        .collect();
    if qualified.is_empty() {
        return nobody(findings, baseline, &policies, &margin);
    }
    let cost = |paired: &&Paired| usd_per_1k(findings.row(&paired.policy));
    let unpriced: Vec<&str> = qualified
        .iter()
        .filter(|p| cost(p).is_none())
        .map(|p| p.policy.as_str())
        .collect();
    let winner = qualified
        .iter()
        .filter_map(|p| Some((*p, cost(p)?)))
        .min_by(|(_, a), (_, b)| a.total_cmp(b));
    let Some((winner, usd)) = winner else {
        return format!(
            "Shown to be not worse than {baseline} by more than {margin} points: {}. Which is cheapest cannot be said, because their cost is {UNKNOWN} ({}).",
            unpriced.join(", "),
            qualified
                .first()
                .map_or_else(String::new, |p| footing(findings, p.accuracy_difference.n)),
        );
    };
    let reference = usd_per_1k(findings.row(baseline));
    let price = match reference {
        Some(reference) if reference > 0.0 => format!(
            "{} times its cost, {} against {} USD per 1,000 requests",
            decimal(usd / reference, 2),
            usd_value(usd),
            usd_value(reference)
        ),
        Some(reference) => format!(
            "{} against {} USD per 1,000 requests",
            usd_value(usd),
            usd_value(reference)
        ),
        None => format!(
            "{} USD per 1,000 requests, the cost of {baseline} being {UNKNOWN}",
            usd_value(usd)
        ),
    };
    let mut text = format!(
        "{} is {} shown to be not worse than {baseline} by more than {margin} points: {price}, accuracy difference {} points ({}).",
        winner.policy,
        superlative("cheapest", qualified.len(), policies.len()),
        points(&winner.accuracy_difference),
        footing(findings, winner.accuracy_difference.n),
    );
    if let Some(volume) = volume {
        let total = |per_1k: f64| decimal(per_1k * volume / 1000.0, 0);
        text.push_str(&format!(
            " At {} requests: {} USD{}.",
            decimal(volume, 0),
            total(usd),
            reference.map_or_else(
                || format!(", the cost of {baseline} being {UNKNOWN}"),
                |reference| format!(" against {} USD", total(reference))
            ),
        ));
    }
    if !unpriced.is_empty() {
        text.push_str(&format!(
            " Left out because their cost is {UNKNOWN}: {}.",
            unpriced.join(", ")
        ));
    }
    text
}

/// Nobody qualifies: who comes closest, and what is missing.
fn nobody(findings: &Findings, baseline: &str, policies: &[&Paired], margin: &str) -> String {
    let opening =
        format!("No policy is shown to be not worse than {baseline} by more than {margin} points");
    let closest = policies
        .iter()
        .filter_map(|p| Some((*p, p.accuracy_difference.value?)))
        .max_by(|(_, a), (_, b)| a.total_cmp(b));
    let Some((closest, _)) = closest else {
        return format!("{opening}: there are no requests graded for both.");
    };
    let missing = match (closest.verdict, closest.needed) {
        (NonInferiority::Inferior, _) => "it is worse by more than the margin".to_owned(),
        (_, Needed::Observations(n)) if closest.accuracy_difference.method == "t-replicates" => {
            format!(
                "too few data, about {} replicates would settle it",
                whole(n)
            )
        }
        (_, Needed::Observations(n)) => {
            format!(
                "too few data, about {} graded requests would settle it",
                about(n)
            )
        }
        (_, Needed::Never) => {
            "its difference equals the margin, so no number of requests settles it".to_owned()
        }
        (_, Needed::Unknown) => "there is no interval to decide with".to_owned(),
    };
    format!(
        "{opening}. The closest is {}, accuracy difference {} points: {missing} ({}).",
        closest.policy,
        points(&closest.accuracy_difference),
        footing(findings, closest.accuracy_difference.n),
    )
}

/// The policy with the lowest value of one measure among those that meet every requirement.
fn best_in(findings: &Findings, measure: Measure, volume: Option<f64>) -> String {
    let name = match measure {
        Measure::Metric(metric) => metric.name.to_owned(),
        Measure::FinalShare(route) => format!("final_share.{}", findings.routes[route]),
    };
    let policies: Vec<&Row> = findings.rows.iter().filter(|row| !row.control).collect();
    let meets = |row: &Row| {
        findings
            .requirements
            .iter()
            .filter(|judgement| judgement.policy == row.policy)
            .all(|judgement| judgement.outcome == Outcome::Pass)
    };
    let qualified: Vec<&Row> = policies.iter().copied().filter(|row| meets(row)).collect();
    if qualified.is_empty() {
        let open = findings
            .requirements
            .iter()
            .filter(|j| matches!(j.outcome, Outcome::Inconclusive { .. }))
            .count();
        return format!(
            "No policy is shown to meet every requirement ({} of {} judgements are inconclusive).",
            whole(open as u64),
            whole(findings.requirements.len() as u64)
        );
    }
    let best = qualified
        .iter()
        .filter_map(|row| {
            let estimate = row.measure(measure)?;
            Some((*row, estimate, estimate.value?))
        })
        .min_by(|(_, _, a), (_, _, b)| a.total_cmp(b));
    let requirement = if findings.requirements.is_empty() {
        String::new()
    } else {
        " shown to meet every requirement".to_owned()
    };
    match best {
        Some((row, estimate, _)) => {
            let total =
                volume
                    .zip(usd_per_1k(Some(row)))
                    .map_or_else(String::new, |(volume, usd)| {
                        format!(
                            " At {} requests: {} USD.",
                            decimal(volume, 0),
                            decimal(usd * volume / 1000.0, 0)
                        )
                    });
            format!(
                "{} is {}{requirement}, {name} {} ({}).{total}",
                row.policy,
                superlative(
                    &format!("lowest in {name}"),
                    qualified.len(),
                    policies.len()
                ),
                in_unit(measure.unit(), estimate),
                footing(findings, estimate.n),
            )
        }
        None => format!(
            "{name} is {UNKNOWN} for {} of {} policies{requirement}.",
            whole(qualified.len() as u64),
            whole(policies.len() as u64)
        ),
    }
}

/// `the cheapest of the 2 of 4 policies`, or `the only one of 4 policies` when there was no choice.
fn superlative(adjective: &str, some: usize, all: usize) -> String {
    match (some, all) {
        (1, 1) => "the only policy, and".to_owned(),
        (1, all) => format!("the only one of {all} policies"),
        (some, all) if some == all => format!("the {adjective} of the {all} policies"),
        (some, all) => format!("the {adjective} of the {some} of {all} policies"),
    }
}

/// What the statement stands on.
fn footing(findings: &Findings, n: u64) -> String {
    format!(
        "{}, n = {}, one-sided alpha {}",
        findings.workload.evidence_word(),
        whole(n),
        findings.alpha
    )
}
