//! The client: what an application holds on to.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::clock::{Clock, RealClock};
use super::endpoint::{Endpoint, endpoints};
use super::error::{BuildError, CallError};
use super::hooks::Hook;
use super::need;
use super::stream::AnswerStream;
use super::walk::{Question, Walk};
use crate::catalogue::Catalogue;
use crate::policy::{Ask, NoLab, Policy, PolicyFile, Setup};
use crate::router::{BreakerState, Plan, Regions, RouteId, Router, Served};
use crate::traffic::{Attempt, Origin};
use crate::units::{Duration, Tokens, Usd, mix64, name_key};
use crate::verify::Verifier;
use crate::wire::{Request, Response};

/// Seed of the draws that requests of one user, session or tenant share, when nobody gives one. It is fixed,
/// so that a user stays on the same side of a canary when a program starts again.
const SEED: u64 = 2026;
/// How long a connection may take, when nobody says.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Copies in flight at once, when nobody says.
const MIRRORS_MAX: usize = 16;

/// How keys are looked up: the value of the variable of this name.
pub type KeyLookup = dyn Fn(&str) -> Option<String> + Send + Sync;

/// What a client may be told beyond its catalogue and its policy.
#[derive(Clone)]
pub struct Options {
    /// Tasks that calls may name. A call of any other task, or of none, counts as a task without a name.
    pub tasks: Vec<String>,
    /// Tenants that the policy may tell apart, besides those in the catalogue.
    pub tenants: Vec<String>,
    /// Languages that the policy may tell apart.
    pub languages: Vec<String>,
    /// Digest of the policy's file, for records.
    pub policy_digest: Option<String>,
    /// Digest of the catalogue, for records.
    pub routes_digest: Option<String>,
    /// Base addresses by provider, in place of those in the catalogue.
    pub base_urls: Vec<(String, String)>,
    /// Who hears of every attempt.
    pub hooks: Vec<Arc<dyn Hook>>,
    /// How the keys are found whose variables the catalogue names; the environment by default. Asked
    /// once, when the client is built.
    pub keys: Arc<KeyLookup>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// How long a connection may take.
    pub connect_timeout: Duration,
    /// Most copies in flight at once; further ones are not sent.
    pub mirrors_max: usize,
    /// Whether records hold prompts and answers.
    pub content: bool,
    /// Seed of the draws that requests of one user, session or tenant share.
    pub seed: u64,
    /// Seed of everything drawn by the call (jitter of waits, draws by request, trace ids): the time of
    /// day by default, so that programs that failed together do not come back together.
    pub call_seed: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            tasks: Vec::new(),
            tenants: Vec::new(),
            languages: Vec::new(),
            policy_digest: None,
            routes_digest: None,
            base_urls: Vec::new(),
            hooks: Vec::new(),
            keys: Arc::new(|variable| std::env::var(variable).ok()),
            clock: Arc::new(RealClock::new()),
            connect_timeout: CONNECT_TIMEOUT,
            mirrors_max: MIRRORS_MAX,
            content: false,
            seed: SEED,
            call_seed: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("hooks", &self.hooks.len())
            .field("content", &self.content)
            .finish_non_exhaustive()
    }
}

/// A policy that was built by hand.
pub struct PolicyChoice {
    /// Its name in records.
    pub name: String,
    /// The policy, built for the tasks, tenants and languages of the options, plus one task without a name
    /// at the end and the catalogue's tenants behind those of the options.
    pub policy: Box<dyn Policy>,
    /// The verifiers its plans name.
    pub verifiers: Vec<Verifier>,
    /// The routes it may name. Their keys and addresses must be there when the client is built.
    pub routes: Vec<RouteId>,
}

impl fmt::Debug for PolicyChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyChoice")
            .field("name", &self.name)
            .field("routes", &self.routes)
            .finish_non_exhaustive()
    }
}

/// What an application knows about a call beyond the request. Everything may be left out.
#[derive(Clone, Debug, Default)]
pub struct CallContext {
    /// What the request is about, one of [`Options::tasks`].
    pub task: Option<String>,
    /// On whose behalf; decides where the data may go.
    pub tenant: Option<String>,
    /// Who asks.
    pub user: Option<String>,
    /// The conversation.
    pub session: Option<String>,
    /// The class of its data; decides where it may go. A class without a rule is refused.
    pub data_class: Option<String>,
    /// Its language.
    pub language: Option<String>,
    /// The application's own id of the call; one is made up otherwise.
    pub trace_id: Option<String>,
    /// A guess at its difficulty, on the scale of the policy's skills.
    pub difficulty_hint: Option<f64>,
    /// Name of the route that answered this conversation last.
    pub last_route: Option<String>,
    /// How long the whole call may take, if less than the catalogue says.
    pub deadline: Option<Duration>,
}

/// What attempts cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spend {
    /// The known costs.
    pub known: Usd,
    /// Attempts that may have been billed and whose cost nobody knows.
    pub unknown: u32,
}

impl Spend {
    /// The cost of these attempts.
    #[must_use]
    pub fn of(trail: &[Attempt]) -> Self {
        trail.iter().fold(Self::default(), |sum, attempt| Self {
            known: sum.known.plus(attempt.cost.unwrap_or(Usd::ZERO)),
            unknown: sum.unknown
                + u32::from(attempt.billed != Some(false) && attempt.cost.is_none()),
        })
    }

    /// The cost, if all of it is known.
    #[must_use]
    pub fn total(&self) -> Option<Usd> {
        (self.unknown == 0).then_some(self.known)
    }
}

/// A whole answer and how it came about.
#[derive(Clone, Debug, PartialEq)]
pub struct Completion {
    /// The answer.
    pub response: Response,
    /// Name of the route that gave it.
    pub route: String,
    /// Which answer it is, and what is known of it.
    pub served: Served,
    /// Every attempt, and every route that was passed over, in order.
    pub trail: Vec<Attempt>,
    /// What all of them cost together.
    pub spend: Spend,
}

/// What all copies of a client share.
pub(super) struct Shared {
    pub(super) catalogue: Catalogue,
    pub(super) endpoints: Vec<Option<Endpoint>>,
    pub(super) policy: Mutex<Box<dyn Policy>>,
    pub(super) learns: bool,
    pub(super) policy_name: String,
    pub(super) policy_digest: Option<String>,
    pub(super) routes_digest: Option<String>,
    pub(super) verifiers: Vec<Verifier>,
    router: Mutex<Router>,
    pub(super) call_deadline: Duration,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) http: reqwest::Client,
    pub(super) hooks: Vec<Arc<dyn Hook>>,
    pub(super) content: bool,
    tasks: Vec<String>,
    tenants: Vec<String>,
    languages: Vec<String>,
    key: u64,
    call_seed: u64,
    calls: AtomicU64,
    mirrors: AtomicUsize,
    mirrors_max: usize,
    mirror_ended: tokio::sync::Notify,
}

impl Shared {
    /// The router. It is held for one step and never across a wait.
    pub(super) fn router(&self) -> MutexGuard<'_, Router> {
        self.router.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a copy, whose answer nobody sees, beside the call. Its place is given back when its task ends,
    /// however it ends.
    pub(super) fn mirror(self: &Arc<Self>, question: Arc<Question>, plan: Plan) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let room = |n: usize| (n < self.mirrors_max).then_some(n + 1);
        let (order, load) = (Ordering::AcqRel, Ordering::Acquire);
        if self.mirrors.fetch_update(order, load, room).is_err() {
            tracing::debug!(target: "routelab::live", "too many copies in flight, one is not sent");
            return;
        }
        let place = MirrorPlace(self.clone());
        let jitter = !question.jitter;
        let mut walk = Walk::new(self.clone(), question, plan, None, false, jitter);
        runtime.spawn(async move {
            let _ = walk.run().await;
            drop(walk);
            drop(place);
        });
    }
}

/// One of the places for copies.
struct MirrorPlace(Arc<Shared>);

impl Drop for MirrorPlace {
    fn drop(&mut self) {
        self.0.mirrors.fetch_sub(1, Ordering::AcqRel);
        self.0.mirror_ended.notify_waiters();
    }
}

/// A client. Copies share everything; it can be used from any number of tasks at once.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("policy", &self.shared.policy_name)
            .field("routes", &self.shared.catalogue.routes.len())
            .finish_non_exhaustive()
    }
}

impl Client {
    /// A client for the routes of a catalogue and the policy of a file.
    ///
    /// # Errors
    ///
    /// Everything that stands against it: keys that are missing (of routes that the policy may
    /// name), addresses that make no sense, a policy that cannot be used without data.
    pub fn new(
        catalogue: Catalogue,
        policy: &PolicyFile,
        options: Options,
    ) -> Result<Self, Vec<BuildError>> {
        let mut errors = Vec::new();
        // Whoever names no tasks has calls of a task without a name.
        let known = if options.tasks.is_empty() {
            vec![String::new()]
        } else {
            options.tasks.clone()
        };
        if policy.spec.trains(&known) {
            errors.push(BuildError::NeedsExamples {
                policy: policy.name.clone(),
                kind: policy.spec.kind(),
            });
        }
        let (tasks, tenants) = (task_names(&options), tenant_names(&catalogue, &options));
        let mut setup = Setup::new(&catalogue, &tasks, &tenants, &options.languages, &NoLab);
        let built = setup.build(&*policy.spec);
        let choice = PolicyChoice {
            name: policy.name.clone(),
            policy: built,
            verifiers: setup.verifiers,
            routes: policy.spec.routes(),
        };
        Self::build(catalogue, choice, options, errors)
    }

    /// A client with a policy that was built by hand.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new).
    pub fn with_policy(
        catalogue: Catalogue,
        choice: PolicyChoice,
        options: Options,
    ) -> Result<Self, Vec<BuildError>> {
        Self::build(catalogue, choice, options, Vec::new())
    }

    fn build(
        catalogue: Catalogue,
        choice: PolicyChoice,
        options: Options,
        mut errors: Vec<BuildError>,
    ) -> Result<Self, Vec<BuildError>> {
        let is_simulated = |verifier: &Verifier| matches!(verifier, Verifier::Simulated(_));
        if choice.verifiers.iter().any(is_simulated) {
            errors.push(BuildError::SimulatedVerifier {
                policy: choice.name.clone(),
            });
        }
        let judges = choice.verifiers.iter().filter_map(Verifier::judge);
        let mut used = choice.routes.clone();
        used.extend(judges.map(|judge| judge.route));
        let endpoints = endpoints(
            &catalogue,
            &options.base_urls,
            &*options.keys,
            &|index| used.iter().any(|route| usize::from(route.0) == index),
            &mut errors,
        );
        let router = Router::new(&catalogue.router).map_err(|found| {
            found.into_iter().map(|error| BuildError::Router {
                why: format!("{error:?}"),
            })
        });
        let http = reqwest::Client::builder()
            .user_agent(concat!("routelab/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(std::time::Duration::from_micros(options.connect_timeout.0))
            // One attempt of the router is one request: whatever is repeated, the router repeats.
            .retry(reqwest::retry::never())
            // A redirect could lead to where the data may not go; it is an answer that is not 2xx.
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .no_proxy()
            .tcp_nodelay(true)
            .build();
        let (router, http) = match (router, http) {
            (Ok(router), Ok(http)) if errors.is_empty() => (router, http),
            (router, http) => {
                errors.extend(router.err().into_iter().flatten());
                errors.extend(http.err().map(|error| BuildError::Transport {
                    why: error.to_string(),
                }));
                return Err(errors);
            }
        };
        let tenants = tenant_names(&catalogue, &options);
        let call_seed = options
            .call_seed
            .unwrap_or_else(|| mix64(options.clock.wall().0 ^ u64::from(std::process::id()) << 40));
        Ok(Self {
            shared: Arc::new(Shared {
                endpoints,
                learns: choice.policy.stateful(),
                policy: Mutex::new(choice.policy),
                policy_name: choice.name,
                policy_digest: options.policy_digest.clone(),
                routes_digest: options.routes_digest.clone(),
                verifiers: choice.verifiers,
                router: Mutex::new(router),
                call_deadline: catalogue.router.call_deadline.unwrap_or(Duration::MAX),
                clock: options.clock.clone(),
                http,
                hooks: options.hooks.clone(),
                content: options.content,
                tasks: task_names(&options),
                tenants,
                languages: options.languages.clone(),
                key: mix64(options.seed),
                call_seed,
                calls: AtomicU64::new(0),
                mirrors: AtomicUsize::new(0),
                mirrors_max: options.mirrors_max,
                mirror_ended: tokio::sync::Notify::new(),
                catalogue,
            }),
        })
    }

    /// Asks for a whole answer.
    ///
    /// # Errors
    ///
    /// Why there is none. Dropping the future cancels the call.
    pub async fn complete(
        &self,
        request: &Request,
        context: &CallContext,
    ) -> Result<Completion, CallError> {
        let mut walk = self.walk(request, context, false)?;
        let response = walk.run().await?;
        let trail = walk.take_trail();
        let Some(served) = walk.served() else {
            unreachable!("a walk without a failure was served");
        };
        let route = &self.shared.catalogue.routes[usize::from(served.route.0)];
        Ok(Completion {
            response,
            route: route.name.clone(),
            served,
            spend: Spend::of(&trail),
            trail,
        })
    }

    /// Asks for an answer in pieces. An answer that a verifier has to see first comes in one piece,
    /// when it has been seen.
    #[must_use]
    pub fn stream(&self, request: &Request, context: &CallContext) -> AnswerStream {
        AnswerStream::new(self.shared.clone(), self.walk(request, context, true))
    }

    /// Waits until no copy is in flight any more.
    pub async fn mirrors_ended(&self) {
        loop {
            let ended = self.shared.mirror_ended.notified();
            if self.mirrors_in_flight() == 0 {
                return;
            }
            ended.await;
        }
    }

    /// Copies in flight.
    #[must_use]
    pub fn mirrors_in_flight(&self) -> usize {
        self.shared.mirrors.load(Ordering::Acquire)
    }

    /// Requests in flight on a route; `None` if there is no such route.
    #[must_use]
    pub fn in_flight(&self, route: &str) -> Option<u32> {
        let route = self.shared.catalogue.find(route)?;
        Some(self.shared.router().in_flight(route))
    }

    /// The state of the breaker that guards a route; `None` if there is no such route.
    #[must_use]
    pub fn breaker(&self, route: &str) -> Option<BreakerState> {
        let route = self.shared.catalogue.find(route)?;
        let now = self.shared.clock.now();
        Some(self.shared.router().breaker_state(route, now))
    }

    /// Why the policy would decide as it does about this request, in words; for people, not for programs.
    ///
    /// # Errors
    ///
    /// If nobody knows where the request's data may go.
    pub fn explain(&self, request: &Request, context: &CallContext) -> Result<String, CallError> {
        let (ask, _) = self.ask(request, context, 0)?;
        let policy = self.shared.policy.lock();
        let mut policy = policy.unwrap_or_else(PoisonError::into_inner).fork();
        let decision = policy.plan(&ask);
        Ok(policy.explain(&ask, decision.why))
    }

    fn walk(
        &self,
        request: &Request,
        context: &CallContext,
        streamed: bool,
    ) -> Result<Walk, CallError> {
        let shared = &self.shared;
        let number = shared.calls.fetch_add(1, Ordering::Relaxed);
        let word = mix64(shared.call_seed ^ mix64(number));
        let (ask, residency) = self.ask(request, context, word)?;
        let decision = {
            let policy = shared.policy.lock();
            policy.unwrap_or_else(PoisonError::into_inner).plan(&ask)
        };
        let trace_id = context.trace_id.clone().unwrap_or_else(|| {
            // As the W3C's trace ids: 16 bytes in hexadecimal.
            format!("{:016x}{word:016x}", mix64(shared.call_seed ^ !number))
        });
        let jitter = mix64(word ^ JITTER);
        let question = Arc::new(Question {
            request: request.clone(),
            need: ask.need,
            trace_id,
            origin: Origin::User,
            residency,
            number,
            task: ask.task,
            why: decision.why,
            jitter,
        });
        Ok(Walk::new(
            shared.clone(),
            question,
            decision.serve,
            decision.mirror,
            streamed,
            jitter,
        ))
    }

    /// What the policy may know, and the names of the regions the data may go to.
    fn ask(
        &self,
        request: &Request,
        context: &CallContext,
        word: u64,
    ) -> Result<(Ask, Option<Vec<String>>), CallError> {
        let shared = &self.shared;
        let (tenant, class) = (context.tenant.as_deref(), context.data_class.as_deref());
        let Some(requirement) = shared.catalogue.requirement(tenant, class) else {
            return Err(CallError::UnknownDataClass {
                name: class.unwrap_or_default().to_owned(),
            });
        };
        let residency = (requirement.residency != Regions::ALL).then(|| {
            let regions = shared.catalogue.regions.iter().enumerate();
            regions
                .filter(|(bit, _)| requirement.residency.0 >> bit & 1 == 1)
                .map(|(_, name)| name.clone())
                .collect()
        });
        let deadline = context.deadline.map(|rest| shared.clock.now().after(rest));
        let need = need::need(request, requirement, deadline);
        // People and conversations that nobody names are all different.
        let name =
            |name: &Option<String>, salt| name.as_deref().map_or(mix64(word ^ salt), name_key);
        let index = |name: Option<&str>, names: &[String]| {
            names.iter().position(|known| Some(known.as_str()) == name)
        };
        let nobody = |found: Option<usize>| found.map_or(u16::MAX, |index| index as u16);
        let task =
            index(context.task.as_deref(), &shared.tasks).unwrap_or(shared.tasks.len() - 1) as u16;
        let ask = Ask {
            task,
            tenant: nobody(index(tenant, &shared.tenants)),
            language: nobody(index(context.language.as_deref(), &shared.languages)),
            user: name(&context.user, 1),
            session: name(&context.session, 2),
            prompt_chars: Tokens::new(need::prompt_chars(request)),
            difficulty_hint: context.difficulty_hint.unwrap_or(f64::NAN),
            need,
            last_route: context
                .last_route
                .as_deref()
                .and_then(|name| shared.catalogue.find(name)),
            now: shared.clock.now(),
            word,
            key: shared.key,
        };
        Ok((ask, residency))
    }
}

/// Keeps the jitter of waits apart from what policies draw.
const JITTER: u64 = 0x6a69_7474_6572_3031;

/// The task names of the options, and the task without a name.
fn task_names(options: &Options) -> Vec<String> {
    let mut tasks = options.tasks.clone();
    tasks.truncate(usize::from(u16::MAX) - 1);
    tasks.push(String::new());
    tasks
}

/// The tenants of the options, then those of the catalogue.
fn tenant_names(catalogue: &Catalogue, options: &Options) -> Vec<String> {
    let mut tenants = options.tenants.clone();
    for name in catalogue.tenants.keys() {
        if !tenants.contains(name) {
            tenants.push(name.clone());
        }
    }
    tenants.truncate(usize::from(u16::MAX) - 1);
    tenants
}
