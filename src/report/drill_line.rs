//! A drill's time lines in characters, for a terminal.

use super::drill::Drill;
use super::drill_incidents::Occasion;
use super::drill_sheet::few;
use super::drill_words::length;
use super::layout::Block;
use super::sheet::block;
use crate::sim::{Counts, Passage};
use crate::units::{Duration, Instant};

/// Characters of a time line in a terminal.
const LINE: usize = 72;
/// From an empty to a full block.
const LEVELS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

impl Drill {
    /// The time line in characters.
    pub(super) fn lines(&self) -> Block {
        let Some(first) = self.shown().first().map(|row| &row.drill.first) else {
            return block(String::new(), &[], Vec::new());
        };
        let bins = first.bins.len();
        if bins < 2 {
            return block(String::new(), &[], Vec::new());
        }
        let each = bins.div_ceil(LINE);
        let columns = bins.div_ceil(each);
        let fold = |column: usize| column * each..((column + 1) * each).min(bins);
        let sums = |passage: &Passage, column: usize| {
            let mut sum = Counts::default();
            for counts in passage.bins.get(fold(column)).unwrap_or_default() {
                sum.merge(counts);
            }
            sum
        };
        let of = |draw: &dyn Fn(usize) -> char| (0..columns).map(draw).collect::<String>();
        // Per minute, for the last character may stand for fewer bins.
        let load: Vec<f64> = (0..columns)
            .map(|at| {
                let minutes = first.bin.as_secs_f64() * fold(at).len() as f64 / 60.0;
                sums(first, at).requests as f64 / minutes.max(f64::MIN_POSITIVE)
            })
            .collect();
        let most = load.iter().copied().fold(0.0, f64::max);
        let mut rows = vec![vec![
            format!("up to {} requests a minute", few(most)),
            of(&|at| {
                let eighths = (load[at] / most.max(f64::MIN_POSITIVE) * 8.0).ceil();
                LEVELS[(eighths as usize).min(8)]
            }),
        ]];
        if !self.occasions.is_empty() {
            let during = |at: usize| {
                let range = fold(at);
                let width = first.bin.0;
                let from = Instant(range.start as u64 * width);
                let until = Instant(range.end as u64 * width);
                let lasts = |one: &Occasion| one.from < until && one.until > from;
                self.occasions.iter().any(lasts)
            };
            rows.push(vec![
                "incidents".to_owned(),
                of(&|at| if during(at) { 'x' } else { '·' }),
            ]);
        }
        for row in self.shown() {
            rows.push(vec![
                row.policy.clone(),
                of(&|at| {
                    let sum = sums(&row.drill.first, at);
                    let known = sum.requests.saturating_sub(sum.undetermined);
                    if known == 0 {
                        return '·';
                    }
                    // Full only if hardly anybody is left out; empty only if everybody is.
                    let eighths = (sum.in_slo * 8).div_ceil(known) as usize;
                    if sum.in_slo * 100 < known * 99 {
                        LEVELS[eighths.min(7)]
                    } else {
                        LEVELS[8]
                    }
                }),
            ]);
        }
        block(
            format!(
                "Time line of the first replicate, {} a character: share served within the SLO (a full block: at least 99 %)",
                length(Duration(first.bin.0 * each as u64))
            ),
            &[("", false), ("from beginning to end", false)],
            rows,
        )
    }
}
