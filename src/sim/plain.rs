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
    AnswersAbreast, Input, LEGS_MAX, Plan, RouteId, Router, Step, Target, UnservedReason,
    VerifierId,
};
use crate::standin::outcome::NOT_IN_WORLD;
use crate::stats::{Tally, Unserved};
use crate::units::lanes::{self, LANES, Lanes};
use crate::units::vectors::{Work, widest};
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

/// What [`Plain::fill`] is about once there is room.
struct TakeOver<'a> {
    plain: &'a mut Plain,
    batch: &'a Batch,
    asks: &'a Asks<'a>,
    world: &'a World<'a>,
    router: &'a Router,
}

impl Work for TakeOver<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let (plain, batch) = (self.plain, self.batch);
        plain.column.clear();
        for (route, column) in self.world.world.iter().enumerate() {
            let is_plain = *column != NOT_IN_WORLD && {
                let column = usize::from(*column);
                plain.grades(route, &batch.grade[column])
                    && plain.costs(route, column, batch, self.world.prices[route])
            };
            plain.column.push(is_plain.then_some(usize::from(*column)));
        }
        plain.eligibility(self.asks, self.router);
    }
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
        widest(TakeOver {
            plain: self,
            batch,
            asks,
            world,
            router,
        });
        true
    }

    /// Which answers of a route are right; false if some are neither right nor wrong.
    #[inline(always)]
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
    #[inline(always)]
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

    #[inline(always)]
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
}

/// One contestant's decisions about a slice.
pub(super) struct Deciding<'a> {
    pub(super) plain: &'a mut Plain,
    /// Copies of the policy, one for each fold it decides about.
    pub(super) per_fold: &'a [Box<dyn Policy>],
    /// By request, which copy decides; empty if there is one.
    pub(super) folds: &'a [u8],
    pub(super) verifiers: &'a [Verifier],
    pub(super) batch: &'a Batch,
    pub(super) asks: &'a Asks<'a>,
    pub(super) router: &'a mut Router,
    pub(super) column: &'a mut Column,
    pub(super) tally: &'a mut Tally,
}

impl Deciding<'_> {
    /// Lets the policy decide, walks its plans, and adds what happened to tally and column. False, and
    /// nothing done, if that is not possible here.
    pub(super) fn decide(self) -> bool {
        let plain = &*self.plain;
        // Judges are billed and may be barred; whoever has no rates is no matter of tables.
        let of_tables = |one: &Verifier| one.rates().is_some() && one.judge().is_none();
        self.verifiers.iter().all(of_tables)
            && self.per_fold.iter().all(|policy| plain.suits(&**policy))
            && widest(self)
    }
}

impl Work for Deciding<'_> {
    type Output = bool;

    #[inline(always)]
    fn call(self) -> bool {
        let Self {
            plain,
            per_fold,
            folds,
            verifiers,
            batch,
            asks,
            router,
            column,
            tally,
        } = self;
        column.begin_plain(batch.len / LANES);
        let last = per_fold.len() - 1;
        let mut counts = VerifierCounts::default();
        for (fold, policy) in per_fold.iter().enumerate() {
            let menu = policy.menu();
            if menu.len() > 1 {
                policy.pick_all(asks, &mut plain.picks);
            }
            for group in 0..column.right.len() {
                let first = group * LANES;
                let mine = if last == 0 {
                    lanes::ALL
                } else {
                    lanes::which(|lane| usize::from(folds[first + lane]).min(last) == fold)
                };
                let picks = &plain.picks.as_chunks::<LANES>().0[group];
                for (index, wanted) in menu.iter().enumerate() {
                    let among = match menu.len() {
                        1 => mine,
                        _ => mine & lanes::which(|lane| picks[lane] == index as u8),
                    };
                    if among == 0 {
                        continue;
                    }
                    let routes = group * plain.routes..(group + 1) * plain.routes;
                    let mut walk = Walk {
                        plain,
                        verifiers,
                        batch,
                        group,
                        cost: &plain.cost[routes.clone()],
                        right: &plain.right[routes.clone()],
                        sum: &mut column.cost[group],
                        is_right: &mut column.right[group],
                        calls: [0; LEGS_MAX + 1],
                        legs: 0,
                        counts: &mut counts,
                        tally,
                    };
                    let eligible = &plain.eligible[routes];
                    let end = Router::instant_abreast(wanted, among, eligible, &mut walk);
                    walk.add_calls();
                    tally.escalated += u64::from(end.escalated.count_ones());
                    for lane in lanes::each(end.unasked) {
                        let why = why_unasked(router, *wanted, asks, first + lane);
                        tally.unserved[why as usize] += 1;
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

/// One plan on its way, for some of the requests of a group.
struct Walk<'a> {
    plain: &'a Plain,
    verifiers: &'a [Verifier],
    batch: &'a Batch,
    group: usize,
    /// By route.
    cost: &'a [[u64; LANES]],
    /// By route.
    right: &'a [Lanes],
    /// What each request has cost so far.
    sum: &'a mut [u64; LANES],
    /// Whose served answer is right.
    is_right: &'a mut Lanes,
    /// `calls[k]`: requests about which more than k routes were asked.
    calls: [Lanes; LEGS_MAX + 1],
    /// Routes that were asked about anything.
    legs: usize,
    counts: &'a mut VerifierCounts,
    tally: &'a mut Tally,
}

impl Walk<'_> {
    #[inline(always)]
    fn add_calls(&mut self) {
        for (k, lanes) in self.calls[..self.legs].iter().enumerate() {
            // n² is the sum of the first n odd numbers.
            let more = u64::from(lanes.count_ones());
            self.tally.calls_sum += more;
            self.tally.calls_square_sum += more * (2 * k as u64 + 1);
        }
    }
}

impl AnswersAbreast for Walk<'_> {
    #[inline(always)]
    fn answered(&mut self, route: RouteId, asked: Lanes) {
        lanes::add_where(asked, &self.cost[usize::from(route.0)], self.sum);
        for k in (0..self.legs).rev() {
            self.calls[k + 1] |= self.calls[k] & asked;
        }
        self.calls[0] |= asked;
        self.legs += 1;
    }

    #[inline(always)]
    fn accepts(&mut self, route: RouteId, verifier: VerifierId, looked: Lanes) -> Lanes {
        // Only routes with a column are on the menu.
        let column = self.plain.column[usize::from(route.0)].unwrap_or(0);
        let lane = &self.batch.verifier_lane[column].as_chunks::<LANES>().0[self.group];
        let right = self.right[usize::from(route.0)];
        // Without rates nothing is decided here.
        let rates = self.verifiers[usize::from(verifier.0)].rates();
        let accepted = rates.map_or(0, |rates| rates.accepts_lanes(right, lane));
        self.counts.right += (looked & right).count_ones();
        self.counts.right_accepted += (looked & right & accepted).count_ones();
        self.counts.wrong += (looked & !right).count_ones();
        self.counts.wrong_accepted += (looked & !right & accepted).count_ones();
        accepted
    }

    #[inline(always)]
    fn serves(&mut self, route: RouteId, served: Lanes) {
        *self.is_right |= served & self.right[usize::from(route.0)];
        self.tally.final_count[usize::from(route.0)] += u64::from(served.count_ones());
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
