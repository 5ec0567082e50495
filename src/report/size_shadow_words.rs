//! The size of a shadow run in sentences: what to take away, and what to know.

use super::format::{about, decimal, whole};
use super::size_shadow::{chance, short};
use crate::size::{Needed, Origin, ShadowPlan, ShadowSizing};
use crate::stats::Rule;

/// The sentence to take away.
pub(super) fn summary(plan: &ShadowPlan, sizing: &ShadowSizing) -> String {
    let Some(rule) = plan.rules.first() else {
        return String::new();
    };
    const NAMED_MAX: usize = 4;
    let pair = |needed: &&Needed| {
        let truth = &sizing.truths[needed.truth];
        format!(
            "{} for {} on {}",
            truth.candidate, truth.primary, truth.task
        )
    };
    let asked: Vec<&Needed> = sizing
        .needed
        .iter()
        .filter(|needed| needed.rule == rule.name() && Some(&needed.power) == plan.powers.first())
        .collect();
    let worse = |needed: &Needed| sizing.truths[needed.truth].joint.difference() <= -sizing.margin;
    let named = |which: Vec<String>| {
        let more = which.len().saturating_sub(NAMED_MAX);
        let mut text = which[..which.len() - more].join(", ");
        if more > 0 {
            text.push_str(&format!(" and {more} more"));
        }
        text
    };
    let sized = asked.iter().filter_map(|needed| {
        let n = match (needed.settled, needed.about) {
            (Some(n), _) => whole(n),
            (None, n) => format!("about {}", about(n?)),
        };
        Some(format!("{n} graded pairs for {}", pair(needed)))
    });
    let mut parts = Vec::new();
    let certified = sizing
        .certified
        .iter()
        .filter(|one| one.rule == rule.name() && Some(&one.power) == plan.powers.first())
        .map(|one| {
            let truth = &sizing.truths[one.truth];
            let what = format!(
                "{} for {} on {}",
                truth.candidate, truth.primary, truth.task
            );
            match one.margin {
                Some(margin) => format!("{} points for {what}", decimal(margin * 100.0, 2)),
                None => format!("no margin for {what}"),
            }
        });
    let certified: Vec<String> = certified.collect();
    if let (false, Some(power)) = (certified.is_empty(), plan.powers.first()) {
        parts.push(format!(
            "the pairs that were asked about certify, with {} chance by {}, {}",
            chance(*power),
            rule.name(),
            named(certified)
        ));
    }
    let sized: Vec<String> = sized.collect();
    if let (false, Some(power)) = (sized.is_empty(), plan.powers.first()) {
        parts.push(format!(
            "to promote with {} chance, {} takes {}",
            chance(*power),
            rule.name(),
            named(sized)
        ));
    }
    let too_bad: Vec<String> = asked
        .iter()
        .copied()
        .filter(|n| worse(n))
        .map(|n| pair(&n))
        .collect();
    if !too_bad.is_empty() {
        parts.push(format!(
            "worse by the margin or more, so that only luck promotes: {}",
            named(too_bad)
        ));
    }
    let open = asked
        .iter()
        .copied()
        .filter(|n| n.settled.or(n.about).is_none() && !worse(n));
    let open: Vec<String> = open.map(|n| pair(&n)).collect();
    if !open.is_empty() {
        parts.push(format!(
            "no practical number of pairs promotes: {}",
            named(open)
        ));
    }
    let mut text = parts.join("; ");
    if let Some(first) = text.get(..1).map(str::to_uppercase) {
        text.replace_range(..1, &first);
    }
    format!("{text}.")
}

/// What has to be known to read the numbers.
pub(super) fn notes(plan: &ShadowPlan, sizing: &ShadowSizing) -> Vec<String> {
    let mut notes = Vec::new();
    let any = |origin: Origin| sizing.truths.iter().any(|truth| truth.origin == origin);
    if any(Origin::Simulated) {
        notes.push("the probabilities of pairs are exact expectations of a simulated world: as good as its assumptions".to_owned());
    }
    if any(Origin::Recorded) {
        notes.push("the probabilities of pairs are shares of recorded pairs, taken for the truth: with few pairs they are rough, and the sizes with them".to_owned());
    }
    let ungraded: u64 = sizing
        .truths
        .iter()
        .filter_map(|truth| truth.ungraded)
        .sum();
    if ungraded > 0 {
        notes.push(format!(
            "{} recorded requests lack a grade of one of the two routes and are left out; if grades are missing for a reason, the pairs that are left are no fair sample",
            whole(ungraded)
        ));
    }
    if plan.rules.contains(&Rule::WaldLesson) {
        notes.push("wald is the source lesson's rule (mean − 1.96 standard errors): with few pairs and rare disagreement its standard error is near 0, and it promotes far more often than its alpha says".to_owned());
    }
    notes.push(
        "power is saw-toothed in n: plan with the n from which it stays, not with the first"
            .to_owned(),
    );
    if let Some(grader) = sizing.grader {
        notes.push(format!(
            "a grader that errs shrinks differences to {} of their size, and agreeing pairs come to disagree by its errors alone; the margin on its scale is {} points, and the rule uses that. \"margin as it is\" is what a rule does that forgets it",
            short(grader.attenuation()),
            short(sizing.graded_margin * 100.0)
        ));
    }
    if sizing.type_one.len() < plan.rules.len() * plan.pairs.len() {
        notes.push(format!(
            "the highest chance at the margin is not searched for above {} pairs (a fiftieth of that for Newcombe's rules), nor where a rule has none; there it is close to alpha",
            whole(crate::size::TYPE_ONE_PAIRS_MAX)
        ));
    }
    if sizing.needed.iter().any(|needed| needed.about.is_some()) {
        notes.push("sizes with \"about\" are the normal approximation: they are too large for the exact search of their rule".to_owned());
    }
    if plan.peek.is_some()
        && plan
            .rules
            .iter()
            .any(|rule| rule.looks_at_agreement() || *rule == Rule::ExactUnconditional)
    {
        notes.push("looking more than once is computed for rules that need the disagreeing pairs alone; Newcombe's and the exact unconditional rule are left out there".to_owned());
    }
    if !sizing.peeked.is_empty() {
        notes.push("\"worse by the margin\" is the worst of some shares of disagreement for each way of deciding".to_owned());
        notes.push("a rule made for one look keeps its alpha for one look only: to look more often, spend alpha by plan (Lan-DeMets, for a fixed horizon; exact in the limit of many pairs) or use the e-process (any time, always)".to_owned());
    }
    notes
}
