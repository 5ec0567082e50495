//! A timeline acted out in real time: the same providers that a simulation asks, asked as requests come in.
//!
//! What becomes of an attempt is known when it arrives; the server then does as it says. When the caller
//! will hang up is assumed and not seen, as in the simulation: only so can be known beforehand when a
//! server gets free. A caller with more patience than [`Acting::limits`] waits for nothing.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant as Moment;

use super::{State, worldly};
use crate::router::{FaultKind, Limits, RouteId};
use crate::standin::timed;
use crate::standin::transmission::Transmission;
use crate::standin::world::{ROUTE_HEADER, World};
use crate::timeline::{Answered, Attempted, Providers, Timeline};
use crate::units::{Duration, Instant, Tokens, mix64, name_key};
use crate::wire::{Adapter, Answer, Headers, Incoming};
use crate::workload::Batch;

/// Most requests whose attempts are counted; then counting begins anew.
const COUNTED_MAX: usize = 1_000_000;

/// What is acted out.
#[derive(Clone, Debug)]
pub struct Acting {
    /// The timeline. Its arrivals are whoever comes.
    pub timeline: Timeline,
    /// The workload that says how long prompts and answers are, and the draws. A request that it does not
    /// have has unknown lengths.
    pub world: World,
    /// Names of the routes, in the order of the timeline.
    pub routes: Vec<String>,
    /// Until when outages are drawn.
    pub horizon: Duration,
    /// How long callers wait.
    pub limits: Limits,
}

/// The timeline as it is played.
pub(super) struct Stage {
    acting: Acting,
    route_keys: Vec<u64>,
    scene: Mutex<Scene>,
}

struct Scene {
    began: Moment,
    providers: Providers<'static>,
    /// Attempts by request and route, of requests that do not say which they are.
    attempts: BTreeMap<(u64, u16), u8>,
}

/// What became of one attempt.
pub(super) struct Played {
    pub(super) number: u64,
    pub(super) attempt: u8,
    at: Instant,
    gap: Duration,
    answered: Answered,
}

impl Scene {
    #[expect(
        clippy::disallowed_methods,
        reason = "real time is what a timeline is acted out in; no simulated result depends on it"
    )]
    fn open(acting: &Acting) -> Self {
        let (key, horizon) = (acting.world.key, acting.horizon);
        Self {
            providers: Providers::owning(acting.timeline.clone(), key, horizon),
            attempts: BTreeMap::new(),
            began: Moment::now(),
        }
    }

    /// Which attempt of a request at a route this is, from 1: as many as came before, and one.
    fn count(&mut self, number: u64, route: RouteId) -> u8 {
        if self.attempts.len() >= COUNTED_MAX {
            self.attempts.clear();
        }
        let count = self.attempts.entry((number, route.0)).or_default();
        *count = count.saturating_add(1);
        *count
    }
}

impl Stage {
    pub(super) fn new(acting: Acting) -> Self {
        Self {
            route_keys: acting.routes.iter().map(|name| name_key(name)).collect(),
            scene: Mutex::new(Scene::open(&acting)),
            acting,
        }
    }

    pub(super) fn begin(&self) {
        let scene = Scene::open(&self.acting);
        *self.scene() = scene;
    }

    fn scene(&self) -> MutexGuard<'_, Scene> {
        self.scene.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What becomes of a request that comes in now; `None` if the timeline knows no such route. `counted`
    /// is its number if it has the header for it, `attempt` what it says of itself.
    pub(super) fn play(
        &self,
        state: &State,
        headers: &Headers,
        counted: u64,
        attempt: Option<u8>,
        asked: &Incoming,
    ) -> Option<Played> {
        let acting = &self.acting;
        let names = &state.names;
        let by_model = || {
            let route = names.iter().find(|(model, _)| *model == asked.model);
            route.map_or(asked.model.as_str(), |(_, route)| route.as_str())
        };
        let name = headers.get(ROUTE_HEADER).unwrap_or_else(by_model);
        let index = acting.routes.iter().position(|route| route == name)?;
        let route = RouteId(u16::try_from(index).ok()?);
        let number = worldly::number(&acting.world, headers, counted, asked);
        let mut batch = Batch::default();
        let world = &acting.world;
        world.workload.fill(world.key, number, 1, &mut batch);
        let column = world.columns.get(name);
        let (input, output, word) = if batch.len == 0 {
            (Tokens::UNKNOWN, Tokens::UNKNOWN, mix64(number))
        } else {
            (
                batch.input_tokens[0],
                column.map_or(Tokens::UNKNOWN, |column| {
                    batch.output(usize::from(*column), 0)
                }),
                batch.policy_word[0],
            )
        };
        let mut scene = self.scene();
        let attempt = attempt.unwrap_or_else(|| scene.count(number, route));
        // Read under the lock: attempts come in the order of time.
        let passed = scene.began.elapsed().as_micros();
        let at = Instant(u64::try_from(passed).unwrap_or(u64::MAX));
        let sent = Attempted {
            route,
            at,
            input,
            output,
            cap: Tokens::new(asked.request.output_cap),
            limits: acting.limits,
            bits: Attempted::bits(word, self.route_keys[index], attempt),
        };
        Some(Played {
            number,
            attempt,
            at,
            gap: acting.limits.gap,
            answered: scene.providers.attempt_as(&sent, asked.stream),
        })
    }
}

impl Played {
    /// How it fails, if it does: what a script of faults would call it, and the kind.
    pub(super) fn failure(&self) -> Option<(&'static str, FaultKind)> {
        let kind = self.answered.fault?.kind;
        let name = match kind {
            FaultKind::Timeout => "stall",
            _ if self.answered.shown_at.is_some() => "cut",
            _ => "kind",
        };
        Some((name, kind))
    }

    pub(super) fn transmission(
        &self,
        adapter: &dyn Adapter,
        answer: &Answer<'_>,
        stream: bool,
    ) -> Transmission {
        timed::transmission(adapter, answer, stream, self.at, self.gap, &self.answered)
    }
}
