//! Requests to look into: what each policy did with them, step by step.

use super::{Cell, Column, Group, Part, Request, Section, Table};
use crate::report::format::{UNKNOWN, decimal, usd_value, whole};
use crate::report::{Findings, Sample, Story};

/// Most bytes of text in all samples: the page must stay small enough to be sent by mail.
const BYTES_MAX: usize = 120_000;

/// The section, if anybody looked at requests.
pub(super) fn section(findings: &Findings) -> Option<Section> {
    let shown = fitting(&findings.samples);
    if shown.is_empty() {
        return None;
    }
    let left = findings.samples.len() - shown.len();
    let mut parts: Vec<Part> = findings
        .sample_rule
        .iter()
        .map(|rule| Part::Prose(format!("Chosen {rule}.")))
        .collect();
    let count = shown.len();
    parts.push(Part::Requests(shown.into_iter().map(request).collect()));
    if left > 0 {
        parts.push(Part::Prose(format!(
            "{} of {} chosen requests are shown, some of each task; more would make the page too long.",
            whole(count as u64),
            whole((count + left) as u64)
        )));
    }
    Some(Section::new(
        "requests",
        "Requests to look into",
        "A few requests, not a sample to compute from: what every policy did with them, as `routelab explain` tells it.",
        parts,
    ))
}

/// As many samples as there is room for, from each task in turn, in their order.
fn fitting(samples: &[Sample]) -> Vec<&Sample> {
    let mut taken: Vec<(usize, usize)> = Vec::new();
    for (place, sample) in samples.iter().enumerate() {
        let before = samples[..place].iter();
        let turn = before.filter(|other| other.task == sample.task).count();
        taken.push((turn, place));
    }
    taken.sort_unstable();
    let mut bytes = 0;
    let mut places: Vec<usize> = taken
        .into_iter()
        .map(|(_, place)| place)
        .take_while(|place| {
            bytes += size(&samples[*place]);
            bytes <= BYTES_MAX
        })
        .collect();
    places.sort_unstable();
    places.into_iter().map(|place| &samples[place]).collect()
}

/// About how much of the page a sample takes.
fn size(sample: &Sample) -> usize {
    const ROW: usize = 400;
    sample
        .stories
        .iter()
        .map(|story| ROW + story.lines.iter().map(|line| line.len() + 8).sum::<usize>())
        .sum()
}

fn request(sample: &Sample) -> Request {
    let rows = sample
        .stories
        .iter()
        .map(|story| {
            vec![
                Cell::words(&story.policy),
                Cell::words(story.route.as_deref().unwrap_or("nobody")),
                Cell::words(&grade(story)),
                Cell::number(
                    story.cost_usd.map_or_else(|| UNKNOWN.to_owned(), usd_value),
                    story.cost_usd,
                ),
                Cell::number(whole(u64::from(story.calls)), Some(f64::from(story.calls))),
            ]
        })
        .collect();
    Request {
        id: sample.request.clone(),
        task: sample.task.clone(),
        tenant: sample.tenant.clone().unwrap_or_default(),
        table: Table {
            caption: "What became of it".to_owned(),
            columns: vec![
                Column::words("policy"),
                Column::words("served by"),
                Column::words("grade"),
                Column::number("USD", "Cost of this request"),
                Column::number("calls", "Calls made for it"),
            ],
            groups: vec![Group {
                label: String::new(),
                rows,
            }],
            filters: Vec::new(),
        },
        stories: sample
            .stories
            .iter()
            .map(|story| (story.policy.clone(), story.lines.clone()))
            .collect(),
    }
}

/// A grade in words.
fn grade(story: &Story) -> String {
    match story.grade {
        None => UNKNOWN.to_owned(),
        Some(grade) if grade >= 1.0 => "right".to_owned(),
        Some(grade) if grade <= 0.0 => "wrong".to_owned(),
        Some(grade) => decimal(grade, 2),
    }
}
