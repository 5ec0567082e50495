//! What two catalogues have in common: the names of their routes, and the first one's rules on the second one's
//! routes.

use crate::catalogue::{Catalogue, Requirement, Route};
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
            // What is the same endpoint stays what it was, whatever is now said about it.
            let same = base
                .find(&route.name)
                .map(|id| &base.routes[usize::from(id.0)]);
            let provider = |catalogue: &Catalogue, route: &Route| {
                let provider = &catalogue.providers[route.provider];
                (provider.kind, provider.base_url.clone())
            };
            if let Some(same) = same.filter(|same| {
                (&same.model, &same.region) == (&route.model, &route.region)
                    && provider(base, same) == provider(head, route)
            }) {
                residency.0 |= same.residency.0;
                local &= same.local;
            }
            RouteRule {
                residency,
                strange,
                local,
            }
        };
        Self(head.routes.iter().map(rule).collect())
    }

    pub(super) fn allows(&self, route: RouteId, need: &Requirement) -> bool {
        let rule = &self.0[usize::from(route.0)];
        let free = need.residency == Regions::ALL;
        (free || (!rule.strange && rule.residency.is_subset_of(need.residency)))
            && (!need.local_only || rule.local)
    }
}
