//! A drill's answer in a few sentences, and what has to be known to read its numbers.

use super::drill::{Drill, DrillRow, HARMS};
use super::drill_sheet::few;
use super::drill_words::{clock, length};
use super::format::{decimal, percent_exact, usd_value};
use super::notes::listed;
use crate::sim::{Lost, Reason};
use crate::timeline::Effect;

/// What is spent for requests that are lost is spent for nobody: what remains costs that much.
const COST: &str = "usd_per_1k_served";
/// Policies that the summary compares.
const NAMED_MAX: usize = 4;

impl Drill {
    /// What happens to the traffic.
    pub(super) fn summary(&self) -> String {
        let mut shown = self.shown();
        if shown.is_empty() {
            return "Nobody sent anything.".to_owned();
        }
        let measure = if self.has_slo() {
            "slo_attainment"
        } else {
            "availability"
        };
        // As it is printed: of equals the cheapest stands first.
        let known = |row: &DrillRow| {
            let share = row.drill.value(measure);
            share.map_or(-1.0, |share| (share * 1e4).round())
        };
        let cost = |row: &DrillRow| row.drill.value(COST).unwrap_or(f64::INFINITY);
        shown.sort_by(|a, b| {
            let better = known(b).total_cmp(&known(a));
            better.then(cost(a).total_cmp(&cost(b)))
        });
        let best = shown[0];
        let equals = shown.iter().filter(|row| known(row) == known(best)).count();
        let kept = if self.has_slo() {
            "requests within the SLO"
        } else {
            "requests served"
        };
        let who = match (equals, shown.len()) {
            (_, 1) => format!("`{}` keeps this share of {kept}", best.policy),
            (1, _) => format!("`{}` keeps the most {kept}", best.policy),
            (n, _) => format!(
                "`{}` is the cheapest of the {n} policies that keep the most {kept}",
                best.policy
            ),
        };
        let occasion = self.occasion();
        let mut sentences = vec![format!(
            "{occasion}{who}: {}.",
            self.standing(best, measure)
        )];
        let rest: Vec<String> = shown
            .iter()
            .skip(1)
            .take(NAMED_MAX - 1)
            .map(|row| format!("`{}`: {}", row.policy, self.standing(row, measure)))
            .collect();
        if !rest.is_empty() {
            let more = match shown.len().saturating_sub(NAMED_MAX) {
                0 => String::new(),
                more => format!("; and {more} more"),
            };
            sentences.push(format!("{}{more}.", rest.join("; ")));
        }
        sentences.extend(self.silently_wrong(&shown));
        sentences.extend(shown.iter().filter_map(|row| self.saturated(row)));
        let violations: u64 = self.rows.iter().map(|row| row.residency_violations).sum();
        if violations > 0 {
            sentences.push(format!(
                "{violations} attempts went where their data may not go."
            ));
        }
        sentences.join(" ")
    }

    /// What no latency and no error shows: answers that come as before and are wrong.
    fn silently_wrong(&self, shown: &[&DrillRow]) -> Option<String> {
        if !self.has_drifts {
            return None;
        }
        let place = HARMS.iter().position(|harm| harm.name == "spoilt")?;
        let spoilt = |row: &DrillRow| row.harms.get(place).and_then(|one| one.value);
        // Whoever is harmed as well has noticed.
        let mut worse: Vec<(&str, f64)> = shown
            .iter()
            .filter(|row| row.sums.harmed * 10 <= row.sums.spoilt)
            .filter_map(|row| Some((row.policy.as_str(), spoilt(row)?)))
            .filter(|(_, share)| *share > 0.0)
            .collect();
        if worse.is_empty() {
            return None;
        }
        worse.sort_by(|a, b| b.1.total_cmp(&a.1));
        let named: Vec<String> = worse
            .iter()
            .take(NAMED_MAX)
            .map(|(policy, share)| format!("`{policy}` {}", percent_exact(*share)))
            .collect();
        Some(format!(
            "No latency and no error shows it, but answers that were right on the calm day are wrong: {} of the requests.",
            named.join(", ")
        ))
    }

    /// When what fails, as the beginning of a sentence.
    fn occasion(&self) -> String {
        let names: Vec<&str> = self.occasions.iter().map(|one| one.name.as_str()).collect();
        match self.occasions.as_slice() {
            [] => String::new(),
            [one] => {
                let how = match one.effect {
                    Effect::Fail { share, .. } | Effect::Cut { share } if share.get() < 1.0 => {
                        "fails in part".to_owned()
                    }
                    Effect::Fail { .. } => "fails".to_owned(),
                    Effect::Slow { factor } => format!("is {factor} times as slow"),
                    Effect::Cut { .. } => "breaks off every answer".to_owned(),
                };
                format!(
                    "When `{}` {how} at {} for {}, ",
                    one.name,
                    clock(one.from),
                    length(one.until.since(one.from))
                )
            }
            several => {
                let mut distinct: Vec<&str> = Vec::new();
                for name in names {
                    if !distinct.contains(&name) {
                        distinct.push(name);
                    }
                }
                let drawn = match self.common {
                    0 => " (as drawn in the first replicate)",
                    n if n < several.len() => " (drawn ones as in the first replicate)",
                    _ => "",
                };
                format!(
                    "With {} incidents at {}{drawn}, ",
                    several.len(),
                    listed(distinct)
                )
            }
        }
    }

    /// `97.1 % (99.8 % on the calm day) at 5.31 USD per 1,000 (+0.12)`.
    fn standing(&self, row: &DrillRow, measure: &str) -> String {
        let share = |value: Option<f64>| {
            value.map_or_else(
                || "an unknown share".to_owned(),
                |share| format!("{} %", decimal(share * 100.0, 2)),
            )
        };
        let mut text = share(row.drill.value(measure));
        if let Some(calm) = &row.calm {
            text.push_str(&format!(
                " ({} on the calm day)",
                share(calm.value(measure))
            ));
        }
        if let Some(usd) = row.drill.value(COST) {
            text.push_str(&format!(" at {} USD per 1,000 served", usd_value(usd)));
            let calm = row.calm.as_ref().and_then(|calm| calm.value(COST));
            if let Some(calm) = calm {
                let extra = usd - calm;
                let sign = if extra < 0.0 { '-' } else { '+' };
                text.push_str(&format!(" ({sign}{})", usd_value(extra.abs())));
            }
        }
        text
    }

    /// The limit that most of a policy's unserved requests met, if any did.
    fn saturated(&self, row: &DrillRow) -> Option<String> {
        let met: Vec<&Lost> = row
            .unserved
            .iter()
            .filter(|lost| matches!(lost.reason, Reason::Saturated(..)))
            .collect();
        let first = met.first()?;
        let of_reason: u64 = met
            .iter()
            .filter(|lost| lost.reason == first.reason)
            .map(|lost| lost.requests)
            .sum();
        let classes = met
            .iter()
            .filter(|lost| lost.reason == first.reason)
            .filter_map(|lost| self.classes.get(usize::from(lost.class)))
            .map(String::as_str);
        Some(format!(
            "Of what `{}` could not serve, {} requests a run (data may go to: {}) met {}.",
            row.policy,
            few(of_reason as f64 / self.replicates()),
            classes.collect::<Vec<_>>().join("; "),
            self.reason(first.reason)
        ))
    }

    /// What has to be known to read the numbers.
    pub(super) fn all_notes(&self) -> Vec<String> {
        let mut notes = vec![format!(
            "{}: providers are models of providers; what a real one does in an outage, and what it bills for it, a simulation cannot tell",
            self.workload.evidence_word()
        )];
        if self.workload.replicates > 1 {
            notes.push(format!(
                "numbers are means over {} replicates, intervals Student's t over replicates: requests of a replicate share outages, breakers and limits and are not independent; where all replicates agree there is none, which is no certainty",
                self.workload.replicates
            ));
        } else {
            notes.push("one replicate: no intervals, for its requests share outages, breakers and limits and are not independent; use --replicates".to_owned());
        }
        if self.workload.shared_rows {
            notes.push("replicates share the recorded rows and differ in arrivals, latencies and chances: intervals hold for these rows, not for other traffic".to_owned());
        }
        if self.has_calm {
            notes.push("calm day: the same requests with the same draws, without incidents, outages and changes of quality; harmed: within the SLO there and not in the drill; lost: served there and not here; spoilt: wholly right there and not here, of the requests that have a grade on both days".to_owned());
            notes.push("time to recover: from the end of an incident to the first of three bins in a row with at most 1 % harmed requests; bins are by arrival, and those without requests are passed over".to_owned());
        }
        notes.push("failed attempts count as free: nobody says what is billed for them, least of all for answers that break off; wasted: answers that were paid for and not served".to_owned());
        notes.push("USD: for a thousand requests, unserved ones included, which cost little or nothing; for a thousand served ones it is the same money over fewer".to_owned());
        for row in &self.rows {
            if let Some(usd) = row
                .drill
                .value("mirror_usd_per_1k")
                .filter(|usd| *usd > 0.0)
            {
                notes.push(format!(
                    "{}: mirrored calls are billed beside the answers, {} USD per 1,000 requests, and are in no other cost",
                    row.policy,
                    usd_value(usd)
                ));
            }
        }
        notes.push("available: served, of the requests of which it is known; goodput: requests within the SLO, per second of the run; tokens in: of attempts that were let in".to_owned());
        if !self.has_slo() {
            notes.push("no SLO is declared (`[timeline.slo]`): every served request is within it, however long it took".to_owned());
        }
        let undetermined: Vec<&str> = self
            .rows
            .iter()
            .filter(|row| row.sums.undetermined > 0)
            .map(|row| row.policy.as_str())
            .collect();
        if !undetermined.is_empty() {
            notes.push(format!(
                "{}: some requests are undetermined (an answer that decides what comes next has no grade) and left out of shares and of harm",
                listed(undetermined)
            ));
        }
        for row in &self.rows {
            let known = row.sums.requests.saturating_sub(row.sums.undetermined);
            if (1..known).contains(&row.costed) && row.drill.value("usd_per_1k").is_some() {
                notes.push(format!(
                    "{}: cost is known for {} of requests and estimated on these",
                    row.policy,
                    percent_exact(row.costed as f64 / known as f64)
                ));
            }
        }
        let cut: u64 = self
            .shown()
            .iter()
            .flat_map(|row| &row.routes)
            .map(|route| route.sum.cut)
            .sum();
        if cut > 0 {
            notes.push(format!(
                "{} of attempts of {} broke off after output had begun: their callers saw half an answer",
                percent_exact(
                    cut as f64
                        / self.shown().iter().map(|row| row.sums.attempts).sum::<u64>().max(1) as f64
                ),
                listed(self.shown().iter().map(|row| row.policy.as_str()))
            ));
        }
        let dropped: u64 = self
            .rows
            .iter()
            .map(|row| row.drill.first.changes_dropped)
            .sum();
        if dropped > 0 {
            notes.push(format!("{dropped} changes of breakers are not listed"));
        }
        notes.push(
            "time lines, plots, and incidents that are drawn are those of the first replicate"
                .to_owned(),
        );
        notes.extend(self.notes.iter().cloned());
        notes
    }
}
