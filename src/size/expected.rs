//! A synthetic world's exact expectations under a catalogue's prices and windows.

use crate::catalogue::Catalogue;
use crate::source::Diagnostic;
use crate::workload::{Population, Terms, Workload};

/// The exact expectations of a synthetic `workload` whose routes cost and read what `catalogue` says. A
/// route that the catalogue lacks has no known price and no window.
///
/// # Errors
///
/// See [`Workload::population`].
pub fn population(
    workload: &Workload,
    catalogue: &Catalogue,
) -> Result<Population, Box<Diagnostic>> {
    workload.population(&terms(workload, catalogue))
}

/// What `catalogue` says about the workload's routes, in their order.
#[must_use]
pub fn terms(workload: &Workload, catalogue: &Catalogue) -> Vec<Terms> {
    let of = |name: &String| {
        let route = catalogue.find(name)?;
        let route = &catalogue.routes[usize::from(route.0)];
        Some(Terms {
            context_tokens: route.context_tokens,
            price: route.price,
        })
    };
    workload
        .routes
        .iter()
        .map(|name| of(name).unwrap_or(Terms::UNKNOWN))
        .collect()
}
