//! Reading `[timeline]`.

use std::sync::Arc;

use super::arrivals::{self, Declared};
use super::{Arrivals, Slo, Timeline, chance, drift, incident, latency, limits, outage};
use crate::catalogue::Catalogue;
use crate::source::{At, Diagnostics, Document, SourceFile, Table};
use crate::units::{Duration, Probability};

/// What a timeline may name.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// Routes, providers and regions.
    pub catalogue: &'a Catalogue,
    /// The workload's tenants.
    pub tenants: &'a [String],
}

/// A timeline that was found right; what is missing is the recorded trace it names, if any.
#[derive(Clone, Debug)]
pub struct Draft {
    timeline: Timeline,
    /// Where arrivals come from that stand in another file.
    trace: Option<arrivals::Plan>,
}

/// Reads the table `[timeline]` of a workload file; `None` if there is none, or with the reasons in
/// `diagnostics` if it is wrong.
#[must_use]
pub fn parse(
    file: &Arc<SourceFile>,
    names: &Names<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<Draft> {
    let document = Document::parse(file);
    let context = document.context();
    let mut root = document.table(&context);
    let table = root.get("timeline")?.table();
    let draft = table.map(|table| read(table, names));
    if context.has_errors() {
        context.finish(diagnostics);
        return None;
    }
    context.finish(diagnostics);
    draft
}

fn read(mut table: Table<'_>, names: &Names<'_>) -> Draft {
    let mut timeline = Timeline::instant(names.catalogue, Arrivals::every(Duration::from_secs(1)));
    let mut trace = None;
    match arrivals::read(table.get("arrivals").as_ref(), names) {
        Some(Declared::Ready(arrivals)) => timeline.arrivals = arrivals,
        Some(Declared::Trace(plan)) => trace = Some(plan),
        // The reasons are among the complaints.
        None => {}
    }
    if let Some(streamed) = table.get("streamed").and_then(|value| value.probability()) {
        timeline.streamed = streamed;
    }
    timeline.latency = latency::read(table.get("latency").as_ref(), names);
    if let Some(mut slo) = table.get("slo").and_then(|value| value.table()) {
        timeline.slo = read_slo(&mut slo);
        slo.finish();
    }
    timeline.limits = limits::read(&mut table, names.catalogue);
    timeline.incidents = incident::read(&mut table, names.catalogue);
    timeline.outages = outage::read(&mut table, names.catalogue);
    timeline.chances = chance::read(&mut table, names.catalogue);
    timeline.drifts = drift::read(&mut table, names.catalogue);
    table.finish();
    let _ = Probability::ONE;
    Draft { timeline, trace }
}

fn read_slo(table: &mut Table<'_>) -> Slo {
    let mut seconds = |key: &str| {
        let value = table.get(key)?;
        value.positive().map(Duration::from_secs_f64)
    };
    Slo {
        ttft: seconds("ttft_s").unwrap_or(Duration::MAX),
        total: seconds("total_s").unwrap_or(Duration::MAX),
    }
}

impl Draft {
    /// The recorded trace that [`Draft::build`] needs, as the file writes it: relative to that file.
    #[must_use]
    pub fn trace_path(&self) -> Option<&At<String>> {
        self.trace.as_ref().map(|plan| &plan.file)
    }

    /// The timeline. `trace` is the content of the file at [`Draft::trace_path`], still compressed if it
    /// is. Complaints about it go to `diagnostics`, and the answer is then `None` if any is an error.
    #[must_use]
    pub fn build(self, trace: Option<&[u8]>, diagnostics: &mut Diagnostics) -> Option<Timeline> {
        let Some(plan) = &self.trace else {
            return Some(self.timeline);
        };
        let arrivals = plan.build(trace.unwrap_or_default(), diagnostics)?;
        Some(Timeline {
            arrivals,
            ..self.timeline
        })
    }
}
