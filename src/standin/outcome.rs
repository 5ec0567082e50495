//! Answers by table look-up: what the workload says each route would have done.

use crate::router::RouteId;
use crate::units::{Price, Score, Tokens};
use crate::verify::{Judge, Verifier};
use crate::workload::Batch;

/// "This route is not in the workload."
pub const NOT_IN_WORLD: u16 = u16::MAX;

/// "Nobody can say what the call cost", where a cost in 10⁻¹² USD is expected.
pub const COST_UNKNOWN: u64 = u64::MAX;

/// The answers of every route to the requests of one batch, one route after the other, so that a
/// call finds grade, cost and lane at one offset.
#[derive(Clone, Debug, Default)]
pub struct Outcomes {
    /// Requests of the batch.
    len: usize,
    grade: Vec<Score>,
    lane: Vec<u32>,
    cost: Vec<u64>,
}

impl Outcomes {
    /// Takes over the batch's columns. `world` says for each route of the catalogue where it stands
    /// in the workload (or [`NOT_IN_WORLD`]), `prices` what it charges.
    ///
    /// Recorded costs are taken as they are; otherwise a call costs its tokens at list price, and
    /// what is not known of either makes the cost unknown, not zero.
    pub fn fill(&mut self, batch: &Batch, world: &[u16], prices: &[Option<Price>]) {
        self.len = batch.len;
        self.grade.clear();
        self.lane.clear();
        self.cost.clear();
        for (column, price) in world.iter().zip(prices) {
            if *column == NOT_IN_WORLD {
                self.grade
                    .resize(self.grade.len() + batch.len, Score::MISSING);
                self.lane.resize(self.lane.len() + batch.len, 0);
                self.cost.resize(self.cost.len() + batch.len, COST_UNKNOWN);
                continue;
            }
            let column = usize::from(*column);
            self.grade
                .extend_from_slice(&batch.grade[column][..batch.len]);
            self.lane
                .extend_from_slice(&batch.verifier_lane[column][..batch.len]);
            if !batch.cost.is_empty() {
                let recorded = batch.cost[column][..batch.len].iter();
                self.cost
                    .extend(recorded.map(|cost| {
                        cost.map_or(COST_UNKNOWN, |cost| cost.0.min(COST_UNKNOWN - 1))
                    }));
            } else if let Some(price) = price {
                let output = if batch.output_tokens.len() == 1 {
                    0
                } else {
                    column
                };
                let tokens = batch.input_tokens[..batch.len]
                    .iter()
                    .zip(&batch.output_tokens[output]);
                self.cost.extend(
                    tokens.map(|(input, output)| match (input.get(), output.get()) {
                        (Some(input), Some(output)) => {
                            price.of(input, output).0.min(COST_UNKNOWN - 1)
                        }
                        _ => COST_UNKNOWN,
                    }),
                );
            } else {
                self.cost.resize(self.cost.len() + batch.len, COST_UNKNOWN);
            }
        }
    }

    #[inline(always)]
    fn at(&self, route: RouteId, i: usize) -> usize {
        debug_assert!(i < self.len, "request {i} of a batch of {}", self.len);
        usize::from(route.0) * self.len + i
    }

    /// The grade of the answer.
    #[must_use]
    #[inline(always)]
    pub fn grade(&self, route: RouteId, i: usize) -> Score {
        self.grade[self.at(route, i)]
    }

    /// What the call costs in 10⁻¹² USD, or [`COST_UNKNOWN`].
    #[must_use]
    #[inline(always)]
    pub fn cost(&self, route: RouteId, i: usize) -> u64 {
        self.cost[self.at(route, i)]
    }

    /// Whether the verifier accepts the answer; `None` when nobody graded it, or nobody said how often
    /// the verifier accepts ([`Verifier::rates`]), so that nobody can say.
    #[must_use]
    #[inline(always)]
    pub fn accepts(&self, verifier: &Verifier, route: RouteId, i: usize) -> Option<bool> {
        let at = self.at(route, i);
        verifier.rates()?.accepts(self.grade[at], self.lane[at])
    }
}

/// A judge's call about one answer, as far as tables tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JudgeCall {
    /// Tokens of its prompt: the judge's own, the request's and the judged answer's.
    pub input_tokens: Tokens,
    /// What it costs in 10⁻¹² USD at list price, or [`COST_UNKNOWN`].
    pub cost: u64,
}

impl JudgeCall {
    /// The call about the answer of a route to the i-th request. `column` is where that route stands in
    /// the workload, `price` is what the judge's route charges. Nothing of it is recorded anywhere, so it
    /// is billed at list price; what is not known of tokens or price makes the cost unknown.
    #[must_use]
    pub fn new(judge: &Judge, price: Option<Price>, batch: &Batch, column: u16, i: usize) -> Self {
        let input = batch.input_tokens.get(i).and_then(|tokens| tokens.get());
        let shared = batch.output_tokens.len() == 1;
        let outputs = batch
            .output_tokens
            .get(if shared { 0 } else { usize::from(column) });
        let output = outputs.and_then(|all| all.get(i)?.get());
        let prompt = input.zip(output).map(|(input, output)| {
            judge
                .prompt_tokens
                .saturating_add(input)
                .saturating_add(output)
        });
        let input_tokens = Tokens::from(prompt);
        let cost = input_tokens
            .get()
            .zip(price)
            .map_or(COST_UNKNOWN, |(prompt, price)| {
                price
                    .of(prompt, judge.output_tokens)
                    .0
                    .min(COST_UNKNOWN - 1)
            });
        Self { input_tokens, cost }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{TokenPrice, Tokens, Usd};

    fn batch() -> Batch {
        Batch {
            len: 2,
            input_tokens: vec![Tokens::new(10), Tokens::UNKNOWN],
            output_tokens: vec![vec![Tokens::new(3), Tokens::new(4)]],
            grade: vec![
                vec![Score::RIGHT, Score::MISSING],
                vec![Score::WRONG, Score::RIGHT],
            ],
            verifier_lane: vec![vec![1, 2], vec![3, 4]],
            ..Batch::default()
        }
    }

    fn price() -> Option<Price> {
        let part = |usd| TokenPrice::from_usd_per_mtok(usd).unwrap();
        Some(Price {
            input: part(1.0),
            output: part(2.0),
            cached_input: None,
            cache_write: None,
            reasoning: None,
        })
    }

    #[test]
    fn what_is_not_known_is_never_zero() {
        let mut outcomes = Outcomes::default();
        outcomes.fill(&batch(), &[1, NOT_IN_WORLD, 0], &[price(), price(), None]);
        assert_eq!(
            outcomes.cost(RouteId(0), 0),
            16_000_000,
            "10 · 1 + 3 · 2 USD per million tokens"
        );
        assert_eq!(outcomes.cost(RouteId(0), 1), COST_UNKNOWN, "unknown tokens");
        assert_eq!(outcomes.cost(RouteId(1), 0), COST_UNKNOWN, "unknown route");
        assert_eq!(outcomes.cost(RouteId(2), 0), COST_UNKNOWN, "unknown price");
        assert_eq!(outcomes.grade(RouteId(0), 1), Score::RIGHT);
        assert_eq!(outcomes.grade(RouteId(2), 1), Score::MISSING);
        assert!(outcomes.grade(RouteId(1), 0).is_missing());
    }

    #[test]
    fn a_judge_is_billed_for_what_it_reads_and_says() {
        let judge = Judge::new(RouteId(0), "Right?");
        let known = JudgeCall::new(&judge, price(), &batch(), 1, 0);
        assert_eq!(known.input_tokens, Tokens::new(200 + 10 + 3));
        assert_eq!(
            known.cost,
            (213 + 5 * 2) * 1_000_000,
            "213 · 1 + 5 · 2 USD per million tokens"
        );
        let unknown = [
            JudgeCall::new(&judge, price(), &batch(), 1, 1),
            JudgeCall::new(&judge, None, &batch(), 1, 0),
            JudgeCall::new(&judge, price(), &Batch::default(), 1, 0),
        ];
        for call in unknown {
            assert_eq!(call.cost, COST_UNKNOWN);
        }
    }

    #[test]
    fn recorded_costs_go_before_prices() {
        let cost = vec![vec![Some(Usd(7)), None], vec![None, Some(Usd(8))]];
        let mut outcomes = Outcomes::default();
        outcomes.fill(&Batch { cost, ..batch() }, &[0, 1], &[price(), price()]);
        assert_eq!(outcomes.cost(RouteId(0), 0), 7);
        assert_eq!(outcomes.cost(RouteId(0), 1), COST_UNKNOWN);
        assert_eq!(outcomes.cost(RouteId(1), 1), 8);
    }
}
