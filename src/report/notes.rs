//! What has to be known beside the numbers: sentences about one row, and the same gathered over rows.
//!
//! A report can have hundreds of rows, so that what many of them share is said once, lists of names end
//! with "and 12 more", and so do sentences that differ only in their numbers. A row's own notes are
//! complete in JSON.

use super::Paired;
use super::format::{percent_exact, whole};
use super::rollouts::Rollouts;
use super::rows::Row;
use super::sample::Pooling;
use crate::sim::{Contestant, Trace};
use crate::stats::{CLUSTERS_LEAST, Estimate, Tally, Unserved};

/// Names that are written out before "and 12 more".
const NAMES_MAX: usize = 5;
/// Notes that are written out of those that differ only in their numbers.
const ALIKE_MAX: usize = 4;

/// `a, b, c, d, e and 12 more`.
pub(super) fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    let (shown, rest) = names.split_at(names.len().min(NAMES_MAX));
    match rest.len() {
        0 => shown.join(", "),
        // "and 1 more" is no shorter than a name.
        1 => names.join(", "),
        more => format!("{} and {} more", shown.join(", "), whole(more as u64)),
    }
}

/// The notes of a contestant whose tallies add up to `total`.
pub(super) fn of_row(contestant: &Contestant, total: &Tally, pooling: &Pooling) -> Vec<String> {
    let mut notes = Vec::new();
    let count = |pooled| whole(pooling.count(pooled));
    let (all, determined) = (count(total.requests), total.determined());
    if total.undetermined > 0 {
        notes.push(format!(
            "{} of {all} requests are undetermined (an answer that decides what comes next has no grade) and left out; the others are no random sample of all",
            count(total.undetermined)
        ));
    }
    if total.missing > 0 {
        notes.push(format!(
            "{} of {all} final answers have no grade and are left out of accuracy; the others are no random sample of all",
            count(total.missing)
        ));
    }
    notes.extend(unserved(total, pooling));
    if total.costed == 0 && determined > 0 {
        notes.push("cost is unknown".to_owned());
    } else if total.costed < determined {
        notes.push(format!(
            "cost is known for {} of {} requests and estimated on these",
            count(total.costed),
            count(determined)
        ));
    }
    if total.unknown_need > 0 {
        notes.push(format!(
            "{} of {all} requests have a prompt of unknown length, which was not checked against context windows",
            count(total.unknown_need)
        ));
    }
    if total.cost_square_sum == i128::MAX {
        notes.push("costs are too large for an interval".to_owned());
    }
    notes.extend(failures(contestant));
    let once = contestant.tallies.len() < 2;
    if contestant.trained {
        match (once, pooling.shared_rows) {
            (true, false) => notes.push(
                "trained once: intervals hold for this one training, use more replicates to include its spread"
                    .to_owned(),
            ),
            (true, true) => notes.push(
                "trained once: intervals hold for this one training; replicates would include its draws, but not the luck of which rows it learnt from"
                    .to_owned(),
            ),
            (false, true) => notes.push(
                "trained on these rows in every replicate: intervals include its draws, but not the luck of which rows it learnt from"
                    .to_owned(),
            ),
            (false, false) => {}
        }
    }
    if let (true, Some(unit)) = (once, contestant.sticks_to) {
        notes.push(format!(
            "one draw per {unit}: intervals hold for this one draw, use more replicates to include its spread"
        ));
    }
    if once && !contestant.passages.is_empty() {
        notes.push(
            "one run on the timeline: intervals take its requests for independent, which they are not (they share outages, breakers and limits), and are too narrow; use more replicates to include its spread"
                .to_owned(),
        );
    }
    if let Some(rollouts) = Rollouts::of(contestant, pooling) {
        notes.extend(rollout_notes(&rollouts, pooling));
    }
    notes
}

/// What has to be known to read the rollouts of a candidate.
fn rollout_notes(rollouts: &Rollouts, pooling: &Pooling) -> Vec<String> {
    let mut notes = Vec::new();
    if rollouts.runs.len() == 1 {
        notes.push(
            "one rollout of the candidate: use more replicates to see how often it ends so"
                .to_owned(),
        );
    } else if pooling.shared_rows {
        notes.push(
            "all rollouts of the candidate went over the same rows in the same order: they differ only in who was drawn into the slice"
                .to_owned(),
        );
    }
    let ungraded = rollouts.ungraded();
    if ungraded > 0 {
        notes.push(format!(
            "{} answers of the canary's slices have no grade or partial credit: they neither end a step nor enter its tests",
            whole(ungraded)
        ));
    }
    notes
}

/// What went wrong on the way, where anything could.
fn failures(contestant: &Contestant) -> Option<String> {
    let sum = |of: fn(&Trace) -> u64| contestant.traces.iter().map(of).sum::<u64>();
    let (failed, cut) = (sum(|one| one.failed), sum(|one| one.failed_after_output));
    if failed + cut == 0 {
        return None;
    }
    let waited: f64 = contestant
        .traces
        .iter()
        .map(|trace| trace.waited.as_secs_f64())
        .sum();
    Some(format!(
        "{} of {} attempts failed, {} of them after output had begun (counted as free: nobody says what is billed); {} waits of {waited:.1} s in all, breakers opened {} times",
        whole(failed + cut),
        whole(sum(|one| one.attempts)),
        whole(cut),
        whole(sum(|one| one.waits)),
        whole(sum(|one| one.breakers_opened)),
    ))
}

/// How many requests nobody answered, and why.
fn unserved(total: &Tally, pooling: &Pooling) -> Option<String> {
    let unserved = total.unserved_total();
    if unserved == 0 {
        return None;
    }
    let reasons: Vec<(u64, &str)> = [
        (Unserved::RefusedByResidency, "refused by residency"),
        (Unserved::NoCapableRoute, "no capable route"),
        (Unserved::Failed, "failed"),
    ]
    .into_iter()
    .map(|(why, words)| (total.unserved[why as usize], words))
    .filter(|(count, _)| *count > 0)
    .collect();
    let share = |n: u64| percent_exact(n as f64 / total.determined().max(1) as f64);
    let count = |n| whole(pooling.count(n));
    let why = match reasons.as_slice() {
        [(_, only)] => (*only).to_owned(),
        several => several
            .iter()
            .map(|(n, words)| format!("{words} {} ({})", count(*n), share(*n)))
            .collect::<Vec<_>>()
            .join(", "),
    };
    Some(format!(
        "{} of {} requests unserved ({}): {why}",
        count(unserved),
        count(total.determined()),
        share(unserved)
    ))
}

/// That several policies are tested together, and how.
pub(super) fn of_family(family: u64, alpha: f64) -> Option<String> {
    (family > 1).then(|| {
        format!(
            "Holm over {family} policies at one-sided alpha {alpha}, for non-inferior and for inferior separately: the chance of even one wrong verdict of a kind is at most that; intervals are for one policy each, and controls are not counted"
        )
    })
}

/// What differences take for independent, and when that is too few of them.
pub(super) fn of_clusters(cluster: Option<&str>, paired: &[Paired]) -> Option<String> {
    /// Fewer clusters give intervals that are too narrow (Cameron and Miller 2015).
    const CLUSTERS_MIN: u64 = 30;
    let unit = cluster?;
    let counts = || paired.iter().filter_map(|pair| pair.clusters);
    let (least, most) = (counts().min()?, counts().max()?);
    let how_many = if least == most {
        whole(least)
    } else {
        format!("{} to {}", whole(least), whole(most))
    };
    let few = if least < CLUSTERS_LEAST {
        format!(
            "; fewer than {CLUSTERS_LEAST} of them decide nothing, so verdicts are inconclusive"
        )
    } else if least < CLUSTERS_MIN {
        "; so few of them give intervals that are still too narrow".to_owned()
    } else {
        String::new()
    };
    let alike = if paired
        .iter()
        .any(|pair| pair.accuracy_difference.method == Estimate::CLUSTER_TANGO)
    {
        format!(
            "; where hardly any {unit} shows a difference, the interval is Tango's for one pair per {unit}"
        )
    } else {
        String::new()
    };
    Some(format!(
        "differences from the baseline take each {unit} for independent ({how_many} of them), not each request{few}{alike}; the other intervals take requests"
    ))
}

/// What promotion rates are about.
pub(super) fn of_shadows(rows: &[Row], pooling: &Pooling) -> Option<String> {
    let shadows = || rows.iter().filter_map(|row| row.shadow.as_ref());
    shadows().next()?;
    if pooling.replicates < 2 {
        return None;
    }
    Some(if pooling.shared_rows {
        "promoted: share of replicates whose own pairs satisfy the rule; they differ in which of the same rows are mirrored, so the rate is that of this log, not of fresh traffic".to_owned()
    } else {
        "promoted: share of replicates, each a run of its own, whose pairs satisfy the rule"
            .to_owned()
    })
}

/// Why a comparison is open although its interval would decide it.
pub(super) fn of_pair(pair: &Paired) -> Option<String> {
    if pair.held_back {
        return Some(
            "the interval alone would decide, but not among the policies tested together"
                .to_owned(),
        );
    }
    pair.left_open.then(|| {
        format!(
            "the interval would decide, but {} of {} requests are left out, and how they would have ended could turn the verdict",
            whole(pair.left_out),
            whole(pair.requests)
        )
    })
}

/// A note and the names it is about.
type Said<'a> = (String, Vec<&'a str>);

/// The notes of rows and comparisons, each said once with the names it is about.
pub(super) fn gathered(rows: &[Row], paired: &[Paired]) -> Vec<String> {
    let mut said: Vec<Said<'_>> = Vec::new();
    let mut say = |text: String, name| match said.iter_mut().find(|(known, _)| *known == text) {
        Some((_, names)) => names.push(name),
        None => said.push((text, vec![name])),
    };
    // Why a mix is not available follows from what is said of its policy.
    for row in rows {
        if row.mix.is_none() || row.unavailable.is_none() {
            for note in &row.notes {
                say(note.clone(), row.policy.as_str());
            }
        }
    }
    for pair in paired {
        if let Some(note) = of_pair(pair) {
            say(note, pair.policy.as_str());
        }
    }
    let (mut everybody, mut measured) = (0, 0);
    for row in rows.iter().filter(|row| row.mix.is_none()) {
        everybody += 1;
        measured += usize::from(row.unavailable.is_none());
    }
    let names_of = |names: &[&str]| match names.len() {
        1 => names[0].to_owned(),
        n if n == everybody => "all rows".to_owned(),
        n if n == measured => "all rows with numbers".to_owned(),
        _ => listed(names.iter().copied()),
    };
    // Sentences that are the same but for their numbers, in the order of the first.
    let mut alike: Vec<(String, Vec<Said<'_>>)> = Vec::new();
    for (text, names) in said {
        let shape: String = text.chars().filter(|c| !c.is_ascii_digit()).collect();
        let shape = shape.replace([',', '.'], "");
        match alike.iter_mut().find(|(known, _)| *known == shape) {
            Some((_, texts)) => texts.push((text, names)),
            None => alike.push((shape, vec![(text, names)])),
        }
    }
    let mut notes = Vec::new();
    for (_, texts) in alike {
        let shown = if texts.len() > ALIKE_MAX + 1 {
            ALIKE_MAX
        } else {
            texts.len()
        };
        let (shown, rest) = texts.split_at(shown);
        for (text, names) in shown {
            notes.push(format!("{}: {text}", names_of(names)));
        }
        let rest: Vec<&str> = rest
            .iter()
            .flat_map(|(_, names)| names.iter().copied())
            .collect();
        if !rest.is_empty() {
            notes.push(format!(
                "{}: the same with other numbers, which are in the JSON",
                listed(rest)
            ));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_end_with_a_count() {
        assert_eq!(listed(["a", "b"]), "a, b");
        assert_eq!(listed(["a", "b", "c", "d", "e", "f"]), "a, b, c, d, e, f");
        assert_eq!(
            listed(["a", "b", "c", "d", "e", "f", "g"]),
            "a, b, c, d, e and 2 more"
        );
    }
}
