//! The workload file's `[timeline]`, and what a command says that does not use it.

use std::path::Path;
use std::sync::Arc;

use super::inputs::{Reader, is_workload_file, shown};
use super::screen::Screen;
use crate::catalogue::Catalogue;
use crate::source::{Document, SourceFile};
use crate::timeline::{self, Names, Timeline};
use crate::units::{Duration, Instant};
use crate::workload::{Domain, DrawKey, Workload};

impl Reader {
    /// The `[timeline]` of the workload file at `path`, which was read before without an error; `None` if it
    /// has none, or if it is wrong.
    pub(super) fn timeline(
        &mut self,
        path: &Path,
        catalogue: &Catalogue,
        tenants: &[String],
    ) -> Option<Timeline> {
        if !is_workload_file(path) {
            return None;
        }
        let file = self.text(path)?;
        let names = Names { catalogue, tenants };
        let draft = timeline::parse(&file, &names, &mut self.found)?;
        let folder = path.parent().map(Path::to_owned).unwrap_or_default();
        let named = draft.trace_path().cloned();
        let trace = match &named {
            None => None,
            Some(named) => Some(self.named_bytes(&folder.join(&named.value), &named.location)?),
        };
        let before = self.found.0.len();
        let timeline = draft.build(trace.as_deref(), &mut self.found);
        if let Some(named) = named {
            let read = shown(&folder.join(&named.value));
            self.rename(before, &named.value, &read);
        }
        timeline
    }
}

/// Whether a workload file has a `[timeline]`, right or wrong.
pub(super) fn has_timeline(file: &Arc<SourceFile>) -> bool {
    let document = Document::parse(file);
    let context = document.context();
    document.table(&context).get("timeline").is_some()
}

/// Says, if there is a `[timeline]`, that `command` takes requests as if each came alone.
pub(super) fn say_unused(is_there: bool, command: &str, screen: &Screen) {
    if is_there {
        screen.say(&format!(
            "note: `{command}` does not use `[timeline]`: it takes requests one by one, as if no other were on its way"
        ));
    }
}

/// Most requests of a replicate that nobody asked for.
pub(super) const REQUESTS_MAX: u64 = 50_000_000;

/// Requests of a replicate, at most: what was asked for; else the rows of recorded traffic; else all that come
/// while the timeline lasts; else what the workload says.
pub(super) fn requests(
    asked: Option<u64>,
    workload: &Workload,
    timeline: Option<&Timeline>,
) -> u64 {
    let lasts = timeline.is_some_and(|timeline| timeline.duration.is_some());
    match asked {
        Some(asked) => asked,
        None if lasts && !workload.is_recorded() => REQUESTS_MAX,
        None => workload.len(),
    }
}

/// How many of at most `requests` requests come in the first replicate, and how long it takes.
pub(super) fn extent(timeline: &Timeline, requests: u64, seed: u64) -> (u64, Duration) {
    let key = DrawKey {
        seed,
        domain: Domain::Traffic,
        replicate: 0,
    };
    let end = timeline
        .duration
        .map_or(Instant(u64::MAX), |length| Instant::ZERO.after(length));
    let most = usize::try_from(requests).unwrap_or(usize::MAX);
    let (mut count, mut last) = (0, Instant::ZERO);
    for arrival in timeline.arrivals.open(key).take(most) {
        if arrival.at >= end {
            break;
        }
        (count, last) = (count + 1, arrival.at);
    }
    match timeline.duration {
        // Requests that run out before the time does end the run.
        Some(length) if count < requests => (count, length),
        _ => (count, last.since(Instant::ZERO)),
    }
}
