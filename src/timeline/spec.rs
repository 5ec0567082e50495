//! Reading `[timeline]`.

use std::sync::Arc;

use super::arrivals::{self, Declared};
use super::target::length;
use super::{Arrivals, Slo, Timeline, chance, drift, incident, latency, limits, outage};
use crate::catalogue::Catalogue;
use crate::source::{At, Diagnostics, Document, SourceFile, Table};
use crate::units::Duration;

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
    let mut timeline = Timeline::instant(names.catalogue, Arrivals::usual());
    let mut trace = None;
    match arrivals::read(table.get("arrivals").as_ref(), names) {
        Some(Declared::Ready(arrivals)) => timeline.arrivals = arrivals,
        Some(Declared::Trace(plan)) => trace = Some(plan),
        // None were declared, or the reasons are among the complaints.
        None => {}
    }
    if let Some(streamed) = table.get("streamed").and_then(|value| value.probability()) {
        timeline.streamed = streamed;
    }
    timeline.duration = length(&mut table, "duration").flatten();
    timeline.bin = length(&mut table, "bin").flatten();
    timeline.latency = latency::read(table.get("latency").as_ref(), names);
    if let Some(mut slo) = table.get("slo").and_then(|value| value.table()) {
        timeline.slo = Slo {
            ttft: length(&mut slo, "ttft").flatten().unwrap_or(Duration::MAX),
            total: length(&mut slo, "total").flatten().unwrap_or(Duration::MAX),
        };
        slo.finish();
    }
    timeline.limits = limits::read(&mut table, names.catalogue);
    timeline.incidents = incident::read(&mut table, names.catalogue);
    timeline.outages = outage::read(&mut table, names.catalogue);
    timeline.chances = chance::read(&mut table, names.catalogue);
    timeline.drifts = drift::read(&mut table, names.catalogue);
    table.finish();
    Draft { timeline, trace }
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
