//! Who answers an attempt: one stand-in for each fidelity.

use super::{Fidelity, Stage};
use crate::catalogue::ProviderKind;
use crate::router::{Fault, Limits, RouteId, VerifierId};
use crate::sim::contestants::Verifiers;
use crate::sim::episode::World;
use crate::standin::effect::Effect;
use crate::standin::faults::Act;
use crate::standin::transmission::{Transmission, content_pieces};
use crate::standin::wired;
use crate::standin::world::{Question, respond};
use crate::units::{Instant, Tokens};
use crate::verify::Verifier;
use crate::wire::{self, Adapter, Answer, Message, Request, Response, ToolSpec};
use crate::workload::{Batch, DrawKey};

/// One attempt.
#[derive(Clone, Copy)]
pub(super) struct Sent<'a> {
    pub(super) route: RouteId,
    pub(super) attempt: u8,
    pub(super) limits: Limits,
    pub(super) stream: bool,
    /// Number of the request.
    pub(super) number: u64,
    /// The request's place in the batch.
    pub(super) i: usize,
    pub(super) batch: &'a Batch,
    /// Who will look at the answer, by its place in [`Verifiers::all`].
    pub(super) verifier: Option<usize>,
    /// The route whose answer is to be judged.
    pub(super) judged: Option<RouteId>,
    pub(super) now: Instant,
}

/// What came of it.
pub(super) struct Seen {
    pub(super) shown_at: Option<Instant>,
    pub(super) ended_at: Instant,
    pub(super) result: Result<Said, Fault>,
}

/// An answer.
pub(super) struct Said {
    pub(super) text: String,
    pub(super) input: Tokens,
    pub(super) output: Tokens,
}

impl From<Response> for Said {
    fn from(response: Response) -> Self {
        Self {
            text: response.text,
            input: response.usage.input,
            output: response.usage.output,
        }
    }
}

/// What all contestants share.
pub(super) struct Theatre<'a> {
    stage: &'a Stage,
    pub(super) world: &'a World<'a>,
    verifiers: &'a [Verifier],
    /// By route of the catalogue.
    adapters: Vec<Box<dyn Adapter>>,
    #[cfg(feature = "live")]
    pub(super) loopback: Option<super::loopback::Loopback>,
}

/// The adapter that speaks to a route.
fn adapter(kind: ProviderKind) -> Box<dyn Adapter> {
    // Every kind of provider has an adapter of its name; a test goes through them.
    wire::adapter(kind.name()).unwrap_or_else(|| Box::new(wire::Compatible::default()))
}

impl<'a> Theatre<'a> {
    pub(super) fn open(
        stage: &'a Stage,
        world: &'a World<'a>,
        key: DrawKey,
        verifiers: &'a Verifiers,
    ) -> Result<Self, String> {
        let catalogue = world.catalogue;
        let adapters = catalogue
            .routes
            .iter()
            .map(|route| adapter(catalogue.providers[route.provider].kind))
            .collect();
        #[cfg(not(feature = "live"))]
        if stage.fidelity == Fidelity::Loopback {
            let _ = key;
            return Err("this build cannot open sockets: it lacks the feature `live`".to_owned());
        }
        Ok(Self {
            stage,
            world,
            verifiers: &verifiers.all,
            adapters,
            #[cfg(feature = "live")]
            loopback: match stage.fidelity {
                Fidelity::Loopback => Some(super::loopback::Loopback::open(
                    stage, world, key, verifiers,
                )?),
                Fidelity::Outcome | Fidelity::Wired => None,
            },
        })
    }

    pub(super) fn adapter(&self, route: RouteId) -> &dyn Adapter {
        &*self.adapters[usize::from(route.0)]
    }

    pub(super) fn verifier(&self, index: usize) -> &'a Verifier {
        &self.verifiers[index]
    }

    /// What the script does to the attempt.
    fn act(&self, sent: &Sent<'_>) -> Option<&'a Act> {
        let route = &self.world.catalogue.routes[usize::from(sent.route.0)];
        let names = [route.name.as_str(), route.model.as_str()];
        self.stage.faults.act(&names, sent.number, sent.attempt)
    }

    fn response(&self, sent: &Sent<'_>) -> Response {
        let column = |route: RouteId| self.world.world[usize::from(route.0)];
        let judged = sent.judged.map(column);
        let question = Question {
            // A judge need not be a route of the workload.
            column: judged.unwrap_or_else(|| column(sent.route)),
            verifier: sent.verifier.map(|index| &self.verifiers[index]),
            judged,
        };
        respond(sent.batch, sent.i, question)
    }

    /// Makes the attempt.
    pub(super) fn tell(&self, sent: &Sent<'_>) -> Result<Seen, String> {
        match self.stage.fidelity {
            Fidelity::Outcome => Ok(self.by_table(sent)),
            Fidelity::Wired => Ok(self.by_bytes(sent)),
            Fidelity::Loopback => self.by_socket(sent),
        }
    }

    fn by_table(&self, sent: &Sent<'_>) -> Seen {
        let response = self.response(sent);
        let act = self.act(sent);
        let adapter = self.adapter(sent.route);
        let content = match act {
            None => 0,
            Some(_) => content_pieces(
                adapter,
                &Answer {
                    response: &response,
                    id: "",
                    model: "",
                },
            ),
        };
        let effect = Effect::of(adapter, act, sent.stream, content, sent.limits, sent.now);
        Seen {
            shown_at: effect.shown_after.map(|after| sent.now.after(after)),
            ended_at: sent.now.after(effect.ended_after),
            result: match effect.fault {
                Some(fault) => Err(fault),
                None => Ok(response.into()),
            },
        }
    }

    fn by_bytes(&self, sent: &Sent<'_>) -> Seen {
        let adapter = self.adapter(sent.route);
        let outgoing = self.outgoing(sent);
        let asked = match adapter.parse_request(&outgoing.path, &outgoing.headers, &outgoing.body) {
            Ok(asked) => asked,
            // The stand-in refuses what our own adapter wrote.
            Err(error) => {
                return Seen {
                    shown_at: None,
                    ended_at: sent.now,
                    result: Err(error.fault()),
                };
            }
        };
        let response = self.response(sent);
        let answer = Answer {
            response: &response,
            id: "req_standin",
            model: &asked.model,
        };
        let bytes = Transmission::of(adapter, &answer, asked.stream, self.act(sent));
        wired::receive(adapter, &bytes, sent.stream, sent.limits, sent.now).into()
    }

    #[cfg(feature = "live")]
    fn by_socket(&self, sent: &Sent<'_>) -> Result<Seen, String> {
        match &self.loopback {
            Some(loopback) => loopback.tell(self, sent).map(Seen::from),
            None => Ok(self.by_bytes(sent)),
        }
    }

    #[cfg(not(feature = "live"))]
    fn by_socket(&self, sent: &Sent<'_>) -> Result<Seen, String> {
        Ok(self.by_bytes(sent))
    }

    /// The request as the adapter writes it.
    pub(super) fn outgoing(&self, sent: &Sent<'_>) -> wire::Outgoing {
        let (batch, i) = (sent.batch, sent.i);
        let task = usize::from(batch.task[i]);
        let task = self.world.workload.tasks.get(task).map_or("", |task| task);
        let mut request = Request {
            messages: vec![Message::user(format!("Request {}: {task}", sent.number))],
            ..Request::default()
        };
        if let Some(cap) = batch.output_cap[i].get() {
            request.output_cap = cap.max(1);
        }
        if batch.tools[i] && sent.judged.is_none() {
            request.tools = vec![ToolSpec {
                name: "look_up".to_owned(),
                description: "Looks something up.".to_owned(),
                parameters: serde_json::json!({ "type": "object" }),
            }];
        }
        let target = wire::Target {
            model: &self.world.catalogue.routes[usize::from(sent.route.0)].model,
            key: Some("stand-in"),
        };
        self.adapter(sent.route)
            .build(&request, &target, sent.stream)
    }

    /// The place of a contestant's verifier among all.
    pub(super) fn place(first: usize, verifier: VerifierId) -> usize {
        first + usize::from(verifier.0)
    }
}

impl From<wired::Received> for Seen {
    fn from(received: wired::Received) -> Self {
        Self {
            shown_at: received.shown_at,
            ended_at: received.ended_at,
            result: match received.result {
                Ok(response) => match response.stop.fault() {
                    Some(kind) => Err(Fault {
                        kind,
                        retry_after: None,
                        usage: response.usage.billed(),
                    }),
                    None => Ok(response.into()),
                },
                Err(error) => Err(error.fault()),
            },
        }
    }
}
