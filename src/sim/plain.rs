//! Slices of requests in which every answer is right or wrong, at a known and ordinary cost.
//!
//! They are decided and walked 64 at a time: whether an answer is right, whether a route may be asked
//! and whether a verifier accepts are bits of a word ([`crate::units::lanes`]), and the walk is the router's
//! own ([`Router::instant_abreast`]). Whatever does not fit (partial grades, unknown costs, mirrors,
//! policies without a menu, routers that keep books) is left to the walks one by one, to the same totals.

use super::drive::VerifierCounts;
use super::episode::{World, jitter};
use super::tallying::{self, Column};
use crate::policy::{Asks, Policy};
use crate::router::{
    Input, LEGS_MAX, Plan, RouteId, Router, Step, Target, UnservedReason, VerifierId,
};
use crate::standin::outcome::NOT_IN_WORLD;
use crate::stats::{Tally, Unserved};
use crate::units::lanes::{self, LANES, Lanes};
use crate::units::{Instant, Price, Score, Tokens};
use crate::verify::Verifier;
use crate::workload::Batch;

/// A call costs less than this, in 10⁻¹² USD (2 USD): then all calls of a walk are ordinary together.
const CALL_COST_MAX: u64 = tallying::ORDINARY / LEGS_MAX as u64;
/// Prices below this (2,147 USD per million tokens) overflow with no number of tokens.
const PRICE_MAX: u64 = 1 << 31;

/// Every route's answers to a slice of requests, in groups of 64.
#[derive(Default)]
pub(super) struct Plain {
    routes: usize,
    /// By route of the catalogue: its column of the workload if all its answers are plain.
    column: Vec<Option<usize>>,
    /// By group, then by route: what each answer costs.
    cost: Vec<[u64; LANES]>,
    /// By group, then by route: which answers are right.
    right: Vec<Lanes>,
    /// By group, then by route: which requests pass the route's hard filters.
    eligible: Vec<Lanes>,
    /// What the policy at hand picked from its menu, by request.
    picks: Vec<u8>,
}

impl Plain {
    /// Takes over the answers of a batch; says whether the slice can be decided here at all.
    pub(super) fn fill(
        &mut self,
        batch: &Batch,
        asks: &Asks<'_>,
        world: &World<'_>,
        router: &Router,
    ) -> bool {
        if batch.len == 0 || !batch.len.is_multiple_of(LANES) || !router.is_instant() {
            return false;
        }
        let groups = batch.len / LANES;
        self.routes = world.world.len();
        self.cost.resize(groups * self.routes, [0; LANES]);
        self.right.resize(groups * self.routes, 0);
        self.eligible.resize(groups * self.routes, 0);
        self.picks.resize(batch.len, 0);
        self.column.clear();
        for (route, column) in world.world.iter().enumerate() {
            let plain = *column != NOT_IN_WORLD
                && self.grades(route, &batch.grade[usize::from(*column)])
                && self.costs(route, usize::from(*column), batch, world.prices[route]);
            self.column.push(plain.then_some(usize::from(*column)));
        }
        self.eligibility(asks, router);
        true
    }

    /// Which answers of a route are right; false if some are neither right nor wrong.
    fn grades(&mut self, route: usize, grades: &[Score]) -> bool {
        let mut binary = true;
        for (group, grades) in grades.as_chunks::<LANES>().0.iter().enumerate() {
            self.right[group * self.routes + route] =
                lanes::which(|lane| grades[lane] == Score::RIGHT);
            binary &= grades
                .iter()
                .fold(true, |binary, grade| binary & grade.is_binary());
        }
        binary
    }

    /// What a route's answers cost; false if some of it is unknown or enormous.
    fn costs(&mut self, route: usize, column: usize, batch: &Batch, price: Option<Price>) -> bool {
        let groups = self.cost.iter_mut().skip(route).step_by(self.routes);
        let mut any = 0;
        if let Some(recorded) = batch.cost.get(column) {
            for (cost, recorded) in groups.zip(recorded.as_chunks::<LANES>().0) {
                for (cost, recorded) in cost.iter_mut().zip(recorded) {
                    *cost = recorded.map_or(CALL_COST_MAX, |cost| cost.0);
                    any |= *cost;
                }
            }
            return any < CALL_COST_MAX;
        }
        let Some(price) = price.filter(|p| p.input.0.max(p.output.0) < PRICE_MAX) else {
            return false;
        };
        let shared = batch.output_tokens.len() == 1;
        let outputs = &batch.output_tokens[if shared { 0 } else { column }];
        let tokens = batch.input_tokens.as_chunks::<LANES>().0.iter();
        let tokens = tokens.zip(outputs.as_chunks::<LANES>().0);
        let mut unknown = false;
        for (cost, (input, output)) in groups.zip(tokens) {
            for (cost, (input, output)) in cost.iter_mut().zip(input.iter().zip(output)) {
                unknown |= (*input == Tokens::UNKNOWN) | (*output == Tokens::UNKNOWN);
                // The same as `Price::of`, for nothing can overflow.
                *cost = price.input.0 * u64::from(input.bits())
                    + price.output.0 * u64::from(output.bits());
                any |= *cost;
            }
        }
        // The bound is a power of two, so it holds for each cost if it holds for all their bits.
        !unknown && any < CALL_COST_MAX
    }

    fn eligibility(&mut self, asks: &Asks<'_>, router: &Router) {
        let groups = self.eligible.chunks_exact_mut(self.routes);
        for (group, eligible) in groups.enumerate() {
            let first = group * LANES;
            if let [everybody] = asks.requirement {
                let input = &asks.input_tokens[first..first + LANES];
                let cap = &asks.output_cap[first..first + LANES];
                let tokens = std::array::from_fn(|lane| Router::tokens(input[lane], cap[lane]));
                let tools = &asks.tools[first..first + LANES];
                let tools = lanes::which(|lane| tools[lane]);
                let (residency, local_only) = (everybody.residency, everybody.local_only);
                router.eligible_abreast(&tokens, tools, residency, local_only, eligible);
                continue;
            }
            eligible.fill(0);
            for lane in 0..LANES {
                let set = router.eligible_set(&asks.need(first + lane));
                for (route, lanes) in eligible.iter_mut().enumerate() {
                    *lanes |= u64::from(set.has(RouteId(route as u16))) << lane;
                }
            }
        }
    }

    /// Whether a policy's decisions about this slice can be walked here: it has a menu, and all routes
    /// of its plans give plain answers.
    fn suits(&self, policy: &dyn Policy) -> bool {
        let plain = |plan: &Plan| {
            plan.legs().all(|leg| match leg.target {
                Target::Route(route) => {
                    matches!(self.column.get(usize::from(route.0)), Some(Some(_)))
                }
                Target::Pool(_) => false,
            })
        };
        !policy.menu().is_empty() && policy.menu().iter().all(plain)
    }

    /// Lets a policy decide, walks its plans, and adds what happened to `tally` and `column`. False, and
    /// nothing done, if that is not possible here. `folds` says for each request which copy of the
    /// policy decides about it; it is empty if there is one.
    pub(super) fn decide(
        &mut self,
        per_fold: &[Box<dyn Policy>],
        folds: &[u8],
        verifiers: &[Verifier],
        batch: &Batch,
        asks: &Asks<'_>,
        router: &mut Router,
        column: &mut Column,
        tally: &mut Tally,
    ) -> bool {
        if !per_fold.iter().all(|policy| self.suits(&**policy)) {
            return false;
        }
        column.begin_plain(batch.len / LANES);
        let last = per_fold.len() - 1;
        let mut counts = VerifierCounts::default();
        for (fold, policy) in per_fold.iter().enumerate() {
            let menu = policy.menu();
            if menu.len() > 1 {
                policy.pick_all(asks, &mut self.picks);
            }
            for group in 0..column.right.len() {
                let first = group * LANES;
                let mine = if last == 0 {
                    lanes::ALL
                } else {
                    lanes::which(|lane| usize::from(folds[first + lane]).min(last) == fold)
                };
                let picks = self.picks.as_chunks::<LANES>().0[group];
                for (index, plan) in menu.iter().enumerate() {
                    let among = match menu.len() {
                        1 => mine,
                        _ => mine & lanes::which(|lane| usize::from(picks[lane]) == index),
                    };
                    if among != 0 {
                        let walk = Walk {
                            plain: self,
                            verifiers,
                            batch,
                            group,
                        };
                        let unasked = walk.walk(plan, among, column, &mut counts, tally);
                        for lane in lanes::each(unasked) {
                            let why = why_unasked(router, *plan, asks, first + lane);
                            tally.unserved[why as usize] += 1;
                        }
                    }
                }
            }
        }
        tally.mirror_costed += batch.len as u64;
        counts.add_to(tally);
        tallying::add_plain(tally, column);
        true
    }
}

/// One plan for some of the requests of a group.
struct Walk<'a> {
    plain: &'a Plain,
    verifiers: &'a [Verifier],
    batch: &'a Batch,
    group: usize,
}

impl Walk<'_> {
    /// Walks it; gives back the requests that nobody could be asked about.
    #[inline(always)]
    fn walk(
        &self,
        plan: &Plan,
        among: Lanes,
        column: &mut Column,
        counts: &mut VerifierCounts,
        tally: &mut Tally,
    ) -> Lanes {
        let at = self.group * self.plain.routes;
        let routes = at..at + self.plain.routes;
        let (cost, right) = (
            &self.plain.cost[routes.clone()],
            &self.plain.right[routes.clone()],
        );
        let sum = &mut column.cost[self.group];
        let is_right = &mut column.right[self.group];
        // `calls[k]`: requests for which more than k routes were asked.
        let mut calls = [0; LEGS_MAX + 1];
        let mut legs = 0;
        let end = Router::instant_abreast(
            plan,
            among,
            &self.plain.eligible[routes],
            |route, asked| {
                lanes::add_where(asked, &cost[usize::from(route.0)], sum);
                for k in (0..legs).rev() {
                    calls[k + 1] |= calls[k] & asked;
                }
                calls[0] |= asked;
                legs += 1;
            },
            |route, verifier, looked| {
                let right = right[usize::from(route.0)];
                let accepted = self.accepts(route, verifier, right);
                counts.right += (looked & right).count_ones();
                counts.right_accepted += (looked & right & accepted).count_ones();
                counts.wrong += (looked & !right).count_ones();
                counts.wrong_accepted += (looked & !right & accepted).count_ones();
                accepted
            },
            |route, served| {
                *is_right |= served & right[usize::from(route.0)];
                tally.final_count[usize::from(route.0)] += u64::from(served.count_ones());
            },
        );
        for (k, lanes) in calls[..legs].iter().enumerate() {
            // n² is the sum of the first n odd numbers.
            let more = u64::from(lanes.count_ones());
            tally.calls_sum += more;
            tally.calls_square_sum += more * (2 * k as u64 + 1);
        }
        tally.escalated += u64::from(end.escalated.count_ones());
        end.unasked
    }

    /// Which answers of a route the verifier accepts.
    #[inline(always)]
    fn accepts(&self, route: RouteId, verifier: VerifierId, right: Lanes) -> Lanes {
        // Only routes with a column are on the menu.
        let column = self.plain.column[usize::from(route.0)].unwrap_or(0);
        let lane = &self.batch.verifier_lane[column].as_chunks::<LANES>().0[self.group];
        match &self.verifiers[usize::from(verifier.0)] {
            Verifier::Simulated(simulated) => simulated.accepts_lanes(right, lane),
        }
    }
}

/// Why nobody can be asked: the first step of the call says so.
#[inline(never)]
fn why_unasked(router: &mut Router, plan: Plan, asks: &Asks<'_>, i: usize) -> Unserved {
    let mut call = router.open(plan, asks.need(i), jitter(asks.word[i]));
    match router.step(&mut call, Input::Begin, Instant::ZERO, &mut ()) {
        Step::Failed(failure) => match failure.unserved() {
            UnservedReason::Residency => Unserved::RefusedByResidency,
            UnservedReason::NoCapableRoute => Unserved::NoCapableRoute,
            UnservedReason::Failed => Unserved::Failed,
        },
        step => unreachable!("no route passes the hard filters, yet the router says {step:?}"),
    }
}
