//! One contestant's course over all requests, step by step.

use std::sync::atomic::{AtomicBool, Ordering};

use super::teller::{Said, Sent, Theatre};
use super::{Stage, Trace, Tracer};
use crate::policy::{Ask, Policy};
use crate::router::{Input, Plan, Reply, RouteId, Router, Step, Target, Verdict, VerifierId};
use crate::sim::contestants::Runner;
use crate::sim::drive::{self, Answering, Outcome, Sum, Verified, VerifierCounts};
use crate::sim::episode::{self, World, jitter};
use crate::sim::ledger::Ledger;
use crate::standin::outcome::{COST_UNKNOWN, Outcomes};
use crate::stats::Tally;
use crate::units::{Instant, Tokens, mix64};
use crate::verify::Verifier;
use crate::workload::{Batch, DrawKey};

/// Requests that are drawn together.
const SLICE: u64 = 128;
/// Splits the choice between streams and whole answers off a request's random word.
const STREAM: u64 = 0x7374_7265_616d_2e31;
/// Verdicts on texts that are remembered: stand-ins give a verifier two texts.
const VERDICTS_MAX: usize = 64;

/// What one contestant plays on.
pub(super) struct Course<'a> {
    pub(super) stage: &'a Stage,
    pub(super) world: &'a World<'a>,
    pub(super) theatre: &'a Theatre<'a>,
    pub(super) routes: &'a [String],
    pub(super) first_verifier: usize,
    pub(super) key: DrawKey,
    pub(super) requests: u64,
    pub(super) stop: &'a AtomicBool,
}

/// What came of it.
pub(super) struct Played {
    /// By request.
    pub(super) outcomes: Vec<Outcome>,
    /// What outcomes do not hold: verdicts, mirrors, unknown needs.
    pub(super) tally: Tally,
    /// Of those that send anything.
    pub(super) trace: Option<Trace>,
    /// What was decided, if it was written down.
    pub(super) ledger: Option<Ledger>,
}

/// What changes from request to request.
struct State<'a> {
    router: Router,
    tracer: Tracer<'a>,
    counts: Verified,
    outcomes: Outcomes,
    /// What verifiers said about texts.
    verdicts: Vec<(usize, String, Verdict)>,
    ledger: Option<Ledger>,
}

/// One request of a batch.
#[derive(Clone, Copy)]
struct At<'a> {
    batch: &'a Batch,
    i: usize,
    number: u64,
    ask: &'a Ask,
}

impl<'a> Course<'a> {
    /// Plays all requests; `None` for those who cannot be run on this data. What is decided goes into the
    /// ledger, if there is one.
    pub(super) fn play(
        &self,
        runner: &mut Runner,
        ledger: Option<Ledger>,
    ) -> Result<Option<Played>, String> {
        let routes = self.world.catalogue.routes.len();
        let mut played = Played {
            outcomes: Vec::new(),
            tally: Tally {
                final_count: vec![0; routes],
                ..Tally::default()
            },
            trace: None,
            ledger: None,
        };
        let mut state = State {
            router: self.world.catalogue.router(),
            tracer: Tracer::new(self.routes, self.stage.keep_lines),
            counts: Verified::default(),
            outcomes: Outcomes::default(),
            verdicts: Vec::new(),
            ledger,
        };
        let mut batch = Batch::default();
        let mut requirement = Vec::new();
        let mut now = Instant::ZERO;
        let mut first = 0;
        while first < self.requests && !self.stop.load(Ordering::Relaxed) {
            let len = (self.requests - first).min(SLICE) as usize;
            self.world.workload.fill(self.key, first, len, &mut batch);
            let asks = self
                .world
                .asks(&batch, self.key.replicate, &mut requirement);
            state
                .outcomes
                .fill(&batch, &self.world.world, &self.world.prices);
            let unknown = asks.input_tokens.iter();
            let unknown = unknown.filter(|tokens| **tokens == Tokens::UNKNOWN);
            played.tally.unknown_need += unknown.count() as u64;
            match runner {
                Runner::Policy { per_fold, .. } => {
                    for i in 0..len {
                        let number = first + i as u64;
                        let ask = Ask { now, ..asks.get(i) };
                        let at = At {
                            batch: &batch,
                            i,
                            number,
                            ask: &ask,
                        };
                        let end = self.request(&mut state, per_fold, at, now, &mut played)?;
                        now = end.after(self.stage.spacing);
                    }
                }
                Runner::Oracle => {
                    episode::oracle(self.world, &state.outcomes, &asks, &mut played.outcomes);
                    played.tally.mirror_costed += len as u64;
                }
                Runner::Unavailable => return Ok(None),
            }
            first += len as u64;
        }
        state.counts.add_to(&mut played.tally);
        if matches!(runner, Runner::Policy { .. }) {
            played.trace = Some(state.tracer.finish());
            played.ledger = state.ledger;
        }
        Ok(Some(played))
    }

    /// One request and its mirror; when the request ended.
    fn request(
        &self,
        state: &mut State<'_>,
        per_fold: &mut [Box<dyn Policy>],
        at: At<'_>,
        now: Instant,
        played: &mut Played,
    ) -> Result<Instant, String> {
        let fold = if self.world.workload.folds() > 1 {
            usize::from(self.world.workload.fold(at.number)).min(per_fold.len() - 1)
        } else {
            0
        };
        let decision = per_fold[fold].plan(at.ask);
        if let Some(ledger) = &mut state.ledger {
            ledger.decided(at.number, at.ask, &*per_fold[fold], decision.why);
        }
        let jitter = jitter(at.ask.word);
        state.tracer.request = at.number;
        let mut counts = std::mem::take(&mut state.counts);
        let played_out = self.call(state, &mut counts, decision.serve, at, jitter, now);
        state.counts = counts;
        let (outcome, end) = played_out?;
        played.outcomes.push(outcome);
        if let Some(ledger) = &mut state.ledger {
            ledger.ended(at.number, outcome);
        }
        if per_fold.iter().any(|policy| policy.stateful()) {
            let (task, why, latency) = (at.ask.task, decision.why, end.since(now));
            drive::tell(per_fold, at.number, task, why, outcome, end, latency);
        }
        let mut mirror_costed = true;
        if let Some(mirror) = decision.mirror {
            // The copy goes out with the request, but after it in the books: what it does to breakers
            // and pauses concerns later requests.
            state.tracer.origin = "mirror ";
            let mut unseen = Verified::default();
            let (copy, _) = self.call(state, &mut unseen, mirror, at, !jitter, end)?;
            state.tracer.origin = "";
            mirror_costed = copy.cost != COST_UNKNOWN;
            if let Some(ledger) = &mut state.ledger {
                ledger.mirrored(at.number, copy);
            }
            episode::add_mirror(&mut played.tally, Some(&outcome), &copy);
        }
        played.tally.mirror_costed += u64::from(mirror_costed);
        Ok(end)
    }

    /// One call to its end.
    fn call(
        &self,
        state: &mut State<'_>,
        counts: &mut Verified,
        plan: Plan,
        at: At<'_>,
        jitter: u64,
        mut now: Instant,
    ) -> Result<(Outcome, Instant), String> {
        let mut call = state.router.open(plan, at.ask.need, jitter);
        let mut input = Input::Begin;
        let mut cost = Sum(0);
        let mut calls = 0u8;
        let mut seen = VerifierCounts::default();
        let mut text = String::new();
        loop {
            let step = state.router.step(&mut call, input, now, &mut state.tracer);
            input = match step {
                Step::Send {
                    route,
                    attempt,
                    limits,
                    ..
                } => {
                    calls = calls.saturating_add(1);
                    let sent = Sent {
                        route,
                        attempt,
                        limits,
                        stream: mix64(at.ask.word ^ STREAM ^ u64::from(route.0)) & 1 == 1,
                        number: at.number,
                        i: at.i,
                        batch: at.batch,
                        verifier: self.verifier_of(&plan, route),
                        judged: None,
                        now,
                    };
                    let told = self.theatre.tell(&sent)?;
                    if let Some(shown_at) = told.shown_at {
                        state
                            .router
                            .step(&mut call, Input::Shown, shown_at, &mut state.tracer);
                    }
                    now = told.ended_at;
                    match told.result {
                        Ok(said) => {
                            cost.add(self.billed(state, route, at, &said));
                            text = said.text;
                            Input::Reply(Reply { usage: None })
                        }
                        Err(fault) => Input::Fault(fault),
                    }
                }
                Step::Verify { route, verifier } => {
                    let place = Theatre::place(self.first_verifier, verifier);
                    let verdict = match self.theatre.verifier(place) {
                        Verifier::Judge(_) => {
                            let asked = self.judge(state, route, verifier, at, now, &mut seen)?;
                            if let Some(asked) = asked {
                                cost.add(asked.cost);
                                seen.bill_judge(asked.cost);
                                calls = calls.saturating_add(1);
                                now = asked.ended_at;
                                Some(asked.verdict)
                            } else {
                                Some(Verdict::Unavailable)
                            }
                        }
                        _ => self.look(state, route, place, at, &text),
                    };
                    let Some(verdict) = verdict else {
                        let log = &mut state.tracer;
                        state.router.step(&mut call, Input::Cancelled, now, log);
                        return Ok((Outcome::UNDETERMINED, now));
                    };
                    let grade = state.outcomes.grade(route, at.i);
                    if verdict == Verdict::Unavailable {
                        seen.unavailable += 1;
                    } else {
                        seen.note(grade, verdict == Verdict::Accept);
                    }
                    Input::Verdict(verdict)
                }
                Step::Wait { until } => {
                    now = until;
                    Input::Wake
                }
                Step::Done(served) => {
                    counts.add(seen);
                    let grade = state.outcomes.grade(served.route, at.i);
                    let outcome = Outcome::of_served(&served, grade, cost.0, calls);
                    return Ok((outcome, now));
                }
                Step::Failed(failure) => {
                    counts.add(seen);
                    return Ok((Outcome::of_failure(&failure, cost.0, calls), now));
                }
            };
        }
    }

    /// Who looks at answers of `route` under this plan, by the place among all verifiers.
    fn verifier_of(&self, plan: &Plan, route: RouteId) -> Option<usize> {
        let leg = plan.legs().find(|leg| leg.target == Target::Route(route))?;
        Some(Theatre::place(self.first_verifier, leg.verifier?))
    }

    /// What an answer costs: as recorded, else its tokens as the provider counted them.
    fn billed(&self, state: &State<'_>, route: RouteId, at: At<'_>, said: &Said) -> u64 {
        if !at.batch.cost.is_empty() {
            return state.outcomes.cost(route, at.i);
        }
        self.at_list_price(route, said)
    }

    /// An answer's tokens, as the provider counted them, at what the route charges.
    fn at_list_price(&self, route: RouteId, said: &Said) -> u64 {
        let price = self.world.prices[usize::from(route.0)];
        match (price, said.input.get(), said.output.get()) {
            (Some(price), Some(input), Some(output)) => {
                price.of(input, output).0.min(COST_UNKNOWN - 1)
            }
            _ => COST_UNKNOWN,
        }
    }

    /// The verdict of a verifier that looks at the answer here; `None` where the world cannot say.
    fn look(
        &self,
        state: &mut State<'_>,
        route: RouteId,
        place: usize,
        at: At<'_>,
        text: &str,
    ) -> Option<Verdict> {
        let verifier = self.theatre.verifier(place);
        // Without a grade nobody knows which text a stand-in would have written.
        let accepted = state.outcomes.accepts(verifier, route, at.i)?;
        let Verifier::Checked(_) = verifier else {
            return Some(if accepted {
                Verdict::Accept
            } else {
                Verdict::Reject
            });
        };
        let known = state
            .verdicts
            .iter()
            .find(|(known, said, _)| *known == place && said == text);
        if let Some((.., verdict)) = known {
            return Some(*verdict);
        }
        let verdict = verifier.verdict(text)?;
        if state.verdicts.len() < VERDICTS_MAX {
            state.verdicts.push((place, text.to_owned(), verdict));
        }
        Some(verdict)
    }

    /// Asks a judge; `None` if the request may not go there.
    fn judge(
        &self,
        state: &mut State<'_>,
        judged: RouteId,
        verifier: VerifierId,
        at: At<'_>,
        now: Instant,
        seen: &mut VerifierCounts,
    ) -> Result<Option<Asked>, String> {
        let place = Theatre::place(self.first_verifier, verifier);
        let Verifier::Judge(judge) = self.theatre.verifier(place) else {
            return Ok(None);
        };
        let answering = Answering {
            outcomes: &state.outcomes,
            verifiers: &[],
            batch: at.batch,
            world: self.world,
        };
        if answering
            .judge_call(&state.router, judge, judged, at.ask.need, at.i)
            .is_none()
        {
            return Ok(None);
        }
        seen.ask_judge();
        state.tracer.trace.attempts += 1;
        let sent = Sent {
            route: judge.route,
            attempt: 1,
            limits: self.world.catalogue.limits,
            stream: false,
            number: at.number,
            i: at.i,
            batch: at.batch,
            verifier: Some(place),
            judged: Some(judged),
            now,
        };
        let told = self.theatre.tell(&sent)?;
        let name = &self.routes[usize::from(judge.route.0)];
        Ok(Some(match told.result {
            Ok(said) => {
                let cost = self.at_list_price(judge.route, &said);
                let verdict = judge.read(&said.text);
                state
                    .tracer
                    .say(told.ended_at, format_args!("judge {name} {verdict:?}"));
                Asked {
                    cost,
                    ended_at: told.ended_at,
                    verdict,
                }
            }
            Err(fault) => {
                state.tracer.trace.failed += 1;
                state.tracer.say(
                    told.ended_at,
                    format_args!("judge {name} failed {}", fault.kind.name()),
                );
                Asked {
                    cost: 0,
                    ended_at: told.ended_at,
                    verdict: Verdict::Unavailable,
                }
            }
        }))
    }
}

/// A judge's answer.
struct Asked {
    cost: u64,
    ended_at: Instant,
    verdict: Verdict,
}
