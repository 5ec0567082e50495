//! The answer in a sentence: which policy to run, how sure that is, and what is missing if nobody knows.

use super::format::{UNKNOWN, about, decimal, in_unit, margin_points, points, usd_value, whole};
use super::metrics::Unit;
use super::notes::listed;
use super::require::Measure;
use super::{Findings, Outcome, Paired, Row};
use crate::stats::{Estimate, Needed, NonInferiority};

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

/// `a`, `a and b`, `a, b and c`; long lists are cut.
fn joined(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] if names.len() <= 5 => format!("{} and {last}", first.join(", ")),
        _ => listed(names.iter().copied()),
    }
}

/// Says on how many requests the numbers of the rows named first stand, where that is not all of them,
/// and which of the `others` have the same shortcoming: numbers of two such rows are about different
/// requests.
fn basis<'a>(
    findings: &'a Findings,
    named: &[&str],
    others: impl IntoIterator<Item = &'a str>,
) -> String {
    let partly = |name: &str| {
        findings.row(name).is_some_and(|row| {
            let known = row.known;
            known.graded < known.requests || known.costed < known.requests
        })
    };
    let others: Vec<&str> = others
        .into_iter()
        .filter(|other| !named.contains(other) && partly(other))
        .collect();
    let beside = if others.is_empty() {
        String::new()
    } else {
        format!(
            " It was chosen beside policies that are known on part of the requests: {}.",
            listed(others)
        )
    };
    let own: String = named
        .iter()
        .filter_map(|name| {
            let known = findings.row(name)?.known;
            partly(name).then(|| {
                format!(
                    " Of {} requests, {name} has a grade on {} and a cost on {}: its numbers are about these only.",
                    whole(known.requests),
                    whole(known.graded),
                    whole(known.costed)
                )
            })
        })
        .collect();
    own + &beside
}

/// The cheapest policy that is not worse than the baseline by more than the margin. A baseline that is
/// itself a policy under test is a candidate: it is not worse than itself.
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
    let own = findings.row(baseline).is_some_and(|row| !row.control);
    if qualified.is_empty() {
        return nobody(findings, baseline, own, &policies, &margin);
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
            listed(unpriced),
            qualified
                .first()
                .map_or_else(String::new, |p| footing(findings, p.accuracy_difference.n)),
        );
    };
    let reference = usd_per_1k(findings.row(baseline));
    let ties: Vec<&str> = qualified
        .iter()
        .filter(|p| cost(p).is_some_and(|other| usd_value(other) == usd_value(usd)))
        .map(|p| p.policy.as_str())
        .collect();
    let several = ties.len() > 1;
    let of_whom = if several {
        format!(" of {}", winner.policy)
    } else {
        String::new()
    };
    let difference = format!(
        "accuracy difference{of_whom} {} points ({}).",
        points(&winner.accuracy_difference),
        footing(findings, winner.accuracy_difference.n),
    );
    let cheaper =
        reference.is_none_or(|reference| usd < reference && usd_value(usd) != usd_value(reference));
    let mut text = if cheaper {
        let price = match reference {
            Some(reference) => format!(
                "{} times its cost, {} against {} USD per 1,000 requests",
                decimal(usd / reference, 2),
                usd_value(usd),
                usd_value(reference)
            ),
            None => format!(
                "{} USD per 1,000 requests, the cost of {baseline} being {UNKNOWN}",
                usd_value(usd)
            ),
        };
        format!(
            "{} {} shown to be not worse than {baseline} by more than {margin} points: {price}, {difference}",
            standing(&ties),
            superlative(
                "cheapest",
                qualified.len() + usize::from(own),
                policies.len() + usize::from(own)
            ),
        )
    } else {
        format!(
            "{} of {} {}policies {} shown to be not worse than {baseline} by more than {margin} points, but none is cheaper than {baseline}: {} {} {} against {} USD per 1,000 requests, {difference}",
            qualified.len(),
            policies.len(),
            if own { "other " } else { "" },
            if qualified.len() == 1 { "is" } else { "are" },
            joined(&ties),
            if several { "cost" } else { "costs" },
            usd_value(usd),
            reference.map_or_else(|| UNKNOWN.to_owned(), usd_value),
        )
    };
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
            listed(unpriced)
        ));
    }
    text.push_str(&basis(
        findings,
        &[&winner.policy, baseline],
        qualified.iter().map(|p| p.policy.as_str()),
    ));
    text
}

/// `a is`, or `a and b are, at the same cost,`: who has the best value to the digits that are printed.
fn standing(ties: &[&str]) -> String {
    match ties {
        [only] => format!("{only} is"),
        several => format!("{}, equal to the digits shown, are", joined(several)),
    }
}

/// Nobody qualifies: who comes closest, and what is missing.
fn nobody(
    findings: &Findings,
    baseline: &str,
    own: bool,
    policies: &[&Paired],
    margin: &str,
) -> String {
    let opening = format!(
        "No {}policy is shown to be not worse than {baseline} by more than {margin} points",
        if own { "other " } else { "" }
    );
    let closest = policies
        .iter()
        .filter_map(|p| Some((*p, p.accuracy_difference.value?)))
        .max_by(|(_, a), (_, b)| a.total_cmp(b));
    let Some((closest, _)) = closest else {
        return format!("{opening}: there are no requests graded for both.");
    };
    let needed =
        |what: String| format!("too few data, about {what} would settle it with 80 % odds");
    let missing = match (closest.verdict, closest.needed) {
        _ if closest.left_open => format!(
            "its interval would decide, but {} of {} requests are left out for want of a grade, and how they would have ended could turn the verdict",
            whole(closest.left_out),
            whole(closest.requests)
        ),
        (NonInferiority::Inferior, _) => "it is worse by more than the margin".to_owned(),
        (_, Needed::Observations(n)) => match closest.accuracy_difference.method {
            Estimate::T_REPLICATES => needed(format!("{} replicates", whole(n))),
            Estimate::ROWS_AND_REPLICATES => needed(format!(
                "{} graded requests, with as many times the replicates,",
                about(n)
            )),
            _ => needed(format!("{} graded requests", about(n))),
        },
        (_, Needed::Never) => {
            "its difference equals the margin, so no number of requests settles it".to_owned()
        }
        (_, Needed::Unknown) if closest.accuracy_difference.limits().is_some() => {
            "too few clusters to decide".to_owned()
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
    let printed = |value: f64| match measure.unit() {
        Unit::Share => decimal(value * 100.0, 1),
        Unit::Usd => usd_value(value),
        Unit::Count => decimal(value, 2),
    };
    let requirement = if findings.requirements.is_empty() {
        String::new()
    } else {
        " shown to meet every requirement".to_owned()
    };
    match best {
        Some((row, estimate, value)) => {
            let ties: Vec<&str> = qualified
                .iter()
                .filter(|row| {
                    let other = row.measure(measure).and_then(|estimate| estimate.value);
                    other.is_some_and(|other| printed(other) == printed(value))
                })
                .map(|row| row.policy.as_str())
                .collect();
            let of_whom = if ties.len() > 1 {
                format!(" of {}", row.policy)
            } else {
                String::new()
            };
            // An alpha belongs to a test; the lowest value was not tested against anything.
            let footing = if findings.requirements.is_empty() {
                format!(
                    "{}, n = {}",
                    findings.workload.evidence_word(),
                    whole(estimate.n)
                )
            } else {
                footing(findings, estimate.n)
            };
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
                "{} {}{requirement}, {name}{of_whom} {} ({footing}).{total}{}",
                standing(&ties),
                match (policies.len(), requirement.is_empty()) {
                    (1, true) => "the only policy".to_owned(),
                    (all, _) => superlative(&format!("lowest in {name}"), qualified.len(), all),
                },
                in_unit(measure.unit(), estimate),
                basis(
                    findings,
                    &[&row.policy],
                    qualified.iter().map(|row| row.policy.as_str())
                ),
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
