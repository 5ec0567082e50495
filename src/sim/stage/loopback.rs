//! The third fidelity: a server of stand-ins that works every answer out anew from the number of the
//! request, and a caller that sends real requests to it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Stage;
use super::teller::{Sent, Theatre};
use crate::sim::contestants::Verifiers;
use crate::sim::episode::World;
use crate::standin::loopback::{Caller, Clock, Server, ServerSpec};
use crate::standin::outcome::NOT_IN_WORLD;
use crate::standin::wired::Received;
use crate::standin::world::{
    self, ATTEMPT_HEADER, JUDGED_HEADER, REPLICATE_HEADER, REQUEST_HEADER, ROUTE_HEADER,
    VERIFIER_HEADER,
};
use crate::workload::DrawKey;

/// A server and its caller.
pub(super) struct Loopback {
    caller: Caller,
    replicate: u32,
    // Serves until it is dropped.
    _server: Server,
}

impl Loopback {
    pub(super) fn open(
        stage: &Stage,
        world: &World<'_>,
        key: DrawKey,
        verifiers: &Verifiers,
    ) -> Result<Self, String> {
        let routes = &world.catalogue.routes;
        let mut columns = BTreeMap::new();
        for (route, column) in routes.iter().zip(&world.world) {
            if *column != NOT_IN_WORLD {
                columns.insert(route.name.clone(), *column);
            }
        }
        // The server gets what it is asked and the workload, and nothing of what happens over here.
        let model = world::World {
            workload: world.workload.clone(),
            key,
            columns,
            verifiers: verifiers.all.clone(),
        };
        let names = routes
            .iter()
            .map(|route| (route.model.clone(), route.name.clone()));
        let server = Server::start(ServerSpec {
            model: Arc::new(model),
            faults: stage.faults.clone(),
            clock: Clock::Virtual,
            names: names.collect(),
            ..ServerSpec::default()
        })
        .map_err(|error| format!("cannot start stand-ins on this machine: {error}"))?;
        let caller = Caller::new(server.addr())
            .map_err(|error| format!("cannot call stand-ins on this machine: {error}"))?;
        Ok(Self {
            caller,
            replicate: key.replicate,
            _server: server,
        })
    }

    /// Makes the attempt.
    pub(super) fn tell(&self, theatre: &Theatre<'_>, sent: &Sent<'_>) -> Result<Received, String> {
        let name = |route: crate::router::RouteId| {
            theatre.world.catalogue.routes[usize::from(route.0)]
                .name
                .clone()
        };
        let mut headers = vec![
            (REQUEST_HEADER, sent.number.to_string()),
            (ATTEMPT_HEADER, sent.attempt.to_string()),
            (ROUTE_HEADER, name(sent.route)),
            (REPLICATE_HEADER, self.replicate.to_string()),
        ];
        if let Some(verifier) = sent.verifier {
            headers.push((VERIFIER_HEADER, verifier.to_string()));
        }
        if let Some(judged) = sent.judged {
            headers.push((JUDGED_HEADER, name(judged)));
        }
        self.caller.call(
            theatre.adapter(sent.route),
            theatre.outgoing(sent),
            &headers,
            sent.stream,
            sent.limits,
            sent.now,
        )
    }
}
