//! What two catalogues have in common: the names of their routes, and the first one's rules on the second one's
//! routes.

use crate::catalogue::{Catalogue, ProviderKind, Requirement, Route};
use crate::router::{Regions, RouteId};
use crate::sim::drive::NO_ROUTE;

/// The routes of both sides by name.
pub(super) struct Names {
    pub(super) all: Vec<String>,
    /// By side and route: its place in `all`.
    pub(super) place: [Vec<u16>; 2],
}

impl Names {
    pub(super) fn of(base: &Catalogue, head: &Catalogue) -> Self {
        let mut all: Vec<String> = base.names().map(str::to_owned).collect();
        for name in head.names() {
            if !all.iter().any(|known| known == name) {
                all.push(name.to_owned());
            }
        }
        let place = [base, head].map(|catalogue| {
            let places = catalogue.names().map(|name| {
                let place = all.iter().position(|known| known == name);
                place.map_or(NO_ROUTE, |place| place as u16)
            });
            places.collect()
        });
        Self { all, place }
    }
}

/// Where the first side's rules let the second side's routes get data from.
pub(super) struct Allowed(Vec<RouteRule>);

struct RouteRule {
    /// Where its data may go, in the first side's regions.
    residency: Regions,
    /// Whether that names a region of which the first side knows nothing.
    strange: bool,
    local: bool,
    /// Whether the first side knows the endpoint.
    known: bool,
}

/// What makes an endpoint the one that it is: who runs it, where it answers, and which model it has.
fn endpoint<'c>(catalogue: &'c Catalogue, route: &'c Route) -> (ProviderKind, String, &'c str) {
    let provider = &catalogue.providers[route.provider];
    let given = provider.base_url.as_deref().unwrap_or_default();
    // A slash at the end, or capitals in the host's name, make no other address.
    let address = given.trim_end_matches('/').to_ascii_lowercase();
    (provider.kind, address, &route.model)
}

impl Allowed {
    pub(super) fn of(base: &Catalogue, head: &Catalogue) -> Self {
        let rule = |route: &Route| {
            let (mut residency, mut strange) = (Regions::default(), false);
            for (bit, name) in head.regions.iter().enumerate() {
                if route.residency.0 >> bit & 1 == 1 {
                    match base.regions.iter().position(|known| known == name) {
                        Some(known) => residency.0 |= 1 << known,
                        None => strange = true,
                    }
                }
            }
            let mut local = route.local;
            // What is the same endpoint stays what it was, whatever it is now called, or said to be: the
            // region of a route is only a label.
            let known: Vec<&Route> = base
                .routes
                .iter()
                .filter(|other| endpoint(base, other) == endpoint(head, route))
                .collect();
            // One endpoint may have several routes; the one of the same name is the same one.
            let named = known.iter().find(|other| other.name == route.name);
            let same = named.map_or_else(|| known.clone(), |named| vec![*named]);
            for other in &same {
                residency.0 |= other.residency.0;
                local &= other.local;
            }
            RouteRule {
                residency,
                strange,
                local,
                known: !same.is_empty(),
            }
        };
        Self(head.routes.iter().map(rule).collect())
    }

    /// Routes of the second side whose endpoint the first one does not know.
    pub(super) fn unknown(&self, head: &Catalogue) -> Vec<String> {
        let routes = head.routes.iter().zip(&self.0);
        let unknown = routes.filter(|(_, rule)| !rule.known);
        unknown.map(|(route, _)| route.name.clone()).collect()
    }

    pub(super) fn allows(&self, route: RouteId, need: &Requirement) -> bool {
        let rule = &self.0[usize::from(route.0)];
        let free = need.residency == Regions::ALL;
        (free || (!rule.strange && rule.residency.is_subset_of(need.residency)))
            && (!need.local_only || rule.local)
    }
}
