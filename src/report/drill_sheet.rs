//! A drill as a document: its tables, and the files of a report folder.

use super::drill::{Day, Drill, DrillRow, Form, HARMS, MEASURES};
use super::drill_incidents::Recovery;
use super::drill_words::{clock, effect, kind, length};
use super::format::{UNKNOWN, decimal, margin_points, measured, percent_exact, whole};
use super::layout::{Block, Line, columns};
use super::sheet::{Figure, Sheet, block};
use crate::router::FaultKind;
use crate::stats::Estimate;
use crate::timeline::Dimension;
use crate::units::Duration;

/// Kinds of failure that have columns of their own: those that say something of a provider's state.
const USUAL: [FaultKind; 4] = [
    FaultKind::RateLimit,
    FaultKind::Overloaded,
    FaultKind::Timeout,
    FaultKind::Server,
];
/// Most lines of a table of incidents.
const LINES_MAX: usize = 40;
/// Most lines for the unserved requests of one policy, but for one about the rest.
const REASONS_MAX: usize = 6;

impl Drill {
    /// The drill as a document.
    #[must_use]
    pub fn sheet(&self) -> Sheet {
        let blocks = [
            self.served(),
            self.harm(),
            self.course(),
            self.latency(),
            self.happened(),
            self.recovered(),
            self.unserved(),
            self.errors(),
            self.visited(),
            self.lines(),
        ];
        Sheet {
            schema: "routelab.drill/1",
            title: self.title(),
            blocks: blocks
                .into_iter()
                .filter(|block| !block.lines.is_empty())
                .collect(),
            file: None,
            figures: self
                .plots()
                .into_iter()
                .zip(self.shown())
                .map(|((_, svg), row)| Figure {
                    title: format!("The course of {}", row.policy),
                    about: "Arrivals, the share that is served within the SLO, and a strip of attempts for each route, over the first replicate. Shaded: incidents.".to_owned(),
                    svg,
                })
                .collect(),
            summary: self.summary(),
            notes: self.all_notes(),
            facts: self.facts(),
            records: self.records(),
        }
    }

    /// From the beginning to the last arrival of the first replicate.
    pub(super) fn span(&self) -> Duration {
        self.rows
            .first()
            .map_or(Duration::ZERO, |row| row.drill.first.span)
    }

    /// Width of a bin of the time lines.
    pub(super) fn bin(&self) -> Duration {
        self.rows
            .first()
            .map_or(Duration::ZERO, |row| row.drill.first.bin)
    }

    fn title(&self) -> String {
        let workload = &self.workload;
        let replicates = match (workload.replicates, workload.shared_rows) {
            (0 | 1, _) => String::new(),
            (n, true) => format!(", {} replicates on the same rows", whole(n)),
            (n, false) => format!(", {} replicates", whole(n)),
        };
        let intervals = if workload.replicates > 1 {
            format!(
                ", {} % intervals over replicates",
                margin_points(self.level)
            )
        } else {
            String::new()
        };
        format!(
            "drill of {}: {} requests in {}, {}, {}{replicates}{intervals}",
            workload.name,
            // Replicates may differ by a few.
            self.rows
                .first()
                .map_or_else(|| whole(0), |row| decimal(self.per_replicate(row), 0)),
            length(self.span()),
            self.slo_in_words(),
            workload.evidence_word()
        )
    }

    /// Two lines for each policy, one for each day, with controls under a label.
    fn days(&self, heading: String, names: &[(&str, &str)]) -> Block {
        let mut titles = vec![("policy", false)];
        if self.has_calm {
            titles.push(("day", false));
        }
        titles.extend(names.iter().map(|(title, _)| (*title, true)));
        let line = |row: &DrillRow, day: &Day, which: Option<&str>| {
            let mut cells = vec![match which {
                // The name stands once.
                Some("calm") => String::new(),
                _ => row.policy.clone(),
            }];
            cells.extend(which.map(str::to_owned));
            cells.extend(names.iter().map(|(_, name)| cell(day, name)));
            Line::Cells(cells)
        };
        let lines_of = |row: &DrillRow| match &row.calm {
            Some(calm) => vec![
                line(row, &row.drill, Some("drill")),
                line(row, calm, Some("calm")),
            ],
            None => vec![line(row, &row.drill, None)],
        };
        let mut lines: Vec<Line> = Vec::new();
        let of = |control: bool| self.rows.iter().filter(move |row| row.control == control);
        lines.extend(of(false).flat_map(lines_of));
        if of(true).next().is_some() {
            lines.push(Line::Label("controls"));
            lines.extend(of(true).flat_map(lines_of));
        }
        Block {
            heading,
            columns: columns(&titles),
            lines,
        }
    }

    fn served(&self) -> Block {
        let calm = if self.has_calm {
            " (calm: the same requests on a day without the incidents)"
        } else {
            ""
        };
        // Without an SLO everything that is served is within it.
        let names = [
            ("available", "availability"),
            ("within the SLO", "slo_attainment"),
            ("goodput, 1/s", "goodput_per_s"),
        ];
        let names: Vec<(&str, &str)> = names
            .into_iter()
            .filter(|(_, name)| self.has_slo() || *name != "slo_attainment")
            .collect();
        self.days(
            format!("Served, {}{calm}", self.workload.evidence_word()),
            &names,
        )
    }

    fn course(&self) -> Block {
        self.days(
            "Course and cost: attempts per request, USD per 1,000 requests and per 1,000 served ones"
                .to_owned(),
            &[
                ("by fallback", "fallback_share"),
                ("escalated", "escalated_share"),
                ("attempts", "attempts_per_request"),
                ("USD", "usd_per_1k"),
                ("served", "usd_per_1k_served"),
                ("wasted", "wasted_usd_per_1k"),
                ("accuracy", "accuracy"),
            ],
        )
    }

    fn latency(&self) -> Block {
        self.days(
            "Seconds from arrival to the first token and to the end, of served requests".to_owned(),
            &[
                ("first p50", "ttft_p50_s"),
                ("p95", "ttft_p95_s"),
                ("p99", "ttft_p99_s"),
                ("end p50", "total_p50_s"),
                ("p95", "total_p95_s"),
                ("p99", "total_p99_s"),
            ],
        )
    }

    fn harm(&self) -> Block {
        let mut lines = Vec::new();
        let mut label = false;
        for row in self.rows.iter().filter(|row| !row.harms.is_empty()) {
            if row.control && !label {
                lines.push(Line::Label("controls"));
                label = true;
            }
            let mut cells = vec![row.policy.clone()];
            // Without an SLO harmed is lost.
            let shown = row.harms.iter().skip(usize::from(!self.has_slo()));
            cells.extend(shown.map(|share| {
                // Few requests would be rounded away.
                let requests = share.value.map(|v| v * self.per_replicate(row));
                let number = requests.map_or_else(|| UNKNOWN.to_owned(), few);
                format!("{} ({number})", measured(share, 100.0, 2, " %"))
            }));
            lines.push(Line::Cells(cells));
        }
        let mut titles = vec![("policy", false)];
        let words = [
            "harmed (no longer within the SLO)",
            "lost (no longer served)",
            "spoilt (no longer right)",
        ];
        debug_assert_eq!(words.len(), HARMS.len());
        let words = words.into_iter().skip(usize::from(!self.has_slo()));
        titles.extend(words.map(|title| (title, true)));
        Block {
            heading: "What the incidents did, against the calm day: share of all requests, and how many a run"
                .to_owned(),
            columns: columns(&titles),
            lines,
        }
    }

    /// Requests of a replicate in the mean.
    fn per_replicate(&self, row: &DrillRow) -> f64 {
        row.sums.requests as f64 / self.replicates()
    }

    /// A count over all replicates as a mean per replicate.
    fn mean(&self, count: u64) -> String {
        few(count as f64 / self.replicates())
    }

    fn happened(&self) -> Block {
        let mut rows: Vec<Vec<String>> = self
            .occasions
            .iter()
            .take(LINES_MAX)
            .map(|one| {
                vec![
                    one.name.clone(),
                    clock(one.from),
                    length(one.until.since(one.from)),
                    super::notes::listed(one.route_names.iter().map(String::as_str)),
                    effect(one.effect),
                ]
            })
            .collect();
        more(&mut rows, self.occasions.len(), 5);
        block(
            match self.common < self.occasions.len() {
                true => "Incidents (drawn ones: of the first replicate)".to_owned(),
                false => "Incidents".to_owned(),
            },
            &[
                ("what", false),
                ("begins", true),
                ("lasts", true),
                ("routes", false),
                ("how", false),
            ],
            rows,
        )
    }

    fn recovered(&self) -> Block {
        let mut rows = Vec::new();
        let mut all = 0;
        for row in self.shown() {
            for (one, recovery) in self.occasions.iter().zip(&row.recoveries) {
                all += 1;
                if rows.len() < LINES_MAX {
                    rows.push(vec![
                        row.policy.clone(),
                        format!("{} at {}", one.name, clock(one.from)),
                        measured(
                            &recovery.harmed,
                            1.0,
                            usize::from(is_few(&recovery.harmed)),
                            "",
                        ),
                        recovery_in_words(recovery),
                    ]);
                }
            }
        }
        more(&mut rows, all, 4);
        block(
            format!(
                "Recovery: requests harmed while it lasts, time from its end until at most 1 % are harmed (to {})",
                length(self.bin())
            ),
            &[
                ("policy", false),
                ("incident", false),
                ("harmed", true),
                ("time to recover", true),
            ],
            rows,
        )
    }

    fn unserved(&self) -> Block {
        let mut rows = Vec::new();
        for row in self.shown() {
            let share = |n: u64| percent_exact(n as f64 / row.sums.requests.max(1) as f64);
            let (first, rest) = row.unserved.split_at(row.unserved.len().min(REASONS_MAX));
            for lost in first {
                let class = self.classes.get(usize::from(lost.class));
                rows.push(vec![
                    row.policy.clone(),
                    class.cloned().unwrap_or_else(|| UNKNOWN.to_owned()),
                    self.mean(lost.requests),
                    share(lost.requests),
                    self.reason(lost.reason),
                ]);
            }
            if !rest.is_empty() {
                let left: u64 = rest.iter().map(|lost| lost.requests).sum();
                rows.push(vec![
                    row.policy.clone(),
                    String::new(),
                    self.mean(left),
                    share(left),
                    format!("{} other classes and reasons, in the JSON", rest.len()),
                ]);
            }
        }
        block(
            "Unserved requests a run, by where their data may go and by reason".to_owned(),
            &[
                ("policy", false),
                ("data may go to", false),
                ("requests", true),
                ("of all", true),
                ("reason", false),
            ],
            rows,
        )
    }

    fn errors(&self) -> Block {
        let shown = self.shown();
        let routes = || {
            shown
                .iter()
                .flat_map(|row| row.routes.iter().map(move |route| (*row, route)))
                .filter(|(_, route)| route.sum.faults.iter().any(|count| *count > 0))
        };
        // The rest would make the lines too long to read.
        let met = |kind: FaultKind| routes().any(|(_, route)| route.sum.faults[kind as usize] > 0);
        let kinds: Vec<FaultKind> = USUAL.into_iter().filter(|kind| met(*kind)).collect();
        let rest: Vec<FaultKind> = FaultKind::ALL
            .into_iter()
            .filter(|kind| !USUAL.contains(kind) && met(*kind))
            .collect();
        let dimensions: Vec<Dimension> = Dimension::ALL
            .into_iter()
            .filter(|what| routes().any(|(_, route)| route.sum.refused[*what as usize] > 0))
            .collect();
        let names = kinds.iter().map(|one| kind(*one));
        let mut titles = vec!["policy".to_owned(), "route".to_owned(), "failed".to_owned()];
        titles.extend(names);
        match rest.as_slice() {
            [] => {}
            [one] => titles.push(kind(*one)),
            several => titles.push(format!("{} other kinds", several.len())),
        }
        titles.extend(
            dimensions
                .iter()
                .map(|what| format!("by limit, {}", what.short())),
        );
        titles.extend(["by incident", "caller hung up", "mid-stream"].map(str::to_owned));
        let titles: Vec<(&str, bool)> = titles
            .iter()
            .enumerate()
            .map(|(index, title)| (title.as_str(), index > 1))
            .collect();
        let rows = routes()
            .map(|(row, route)| {
                let sum = &route.sum;
                let mut cells = vec![
                    row.policy.clone(),
                    self.route(route.route).to_owned(),
                    self.mean(sum.faults.iter().sum()),
                ];
                cells.extend(
                    kinds
                        .iter()
                        .map(|kind| self.mean(sum.faults[*kind as usize])),
                );
                if !rest.is_empty() {
                    let faults = rest.iter().map(|kind| sum.faults[*kind as usize]);
                    cells.push(self.mean(faults.sum()));
                }
                cells.extend(
                    dimensions
                        .iter()
                        .map(|what| self.mean(sum.refused[*what as usize])),
                );
                cells.extend([sum.by_incident, sum.hung_up, sum.cut].map(|n| self.mean(n)));
                cells
            })
            .collect();
        block(
            "Failed attempts a run, by kind; and of these by limit, by incident, …".to_owned(),
            &titles,
            rows,
        )
    }

    fn visited(&self) -> Block {
        let runs = self.workload.replicates.max(1);
        let rows = self
            .shown()
            .iter()
            .flat_map(|row| row.routes.iter().map(move |route| (*row, route)))
            .map(|(row, route)| {
                let sum = &route.sum;
                let failed: u64 = sum.faults.iter().sum();
                let tokens = |tokens| {
                    if sum.tokens_unknown == 0 {
                        self.mean(tokens)
                    } else {
                        "unknown".to_owned()
                    }
                };
                vec![
                    row.policy.clone(),
                    self.route(route.route).to_owned(),
                    self.mean(sum.attempts),
                    percent_exact(failed as f64 / sum.attempts.max(1) as f64),
                    self.mean(sum.served),
                    self.mean(sum.opened),
                    length(Duration(sum.breaker_open.0 / runs)),
                    tokens(sum.input_tokens),
                    tokens(sum.output_tokens),
                ]
            })
            .collect();
        block(
            "Routes: means a run".to_owned(),
            &[
                ("policy", false),
                ("route", false),
                ("attempts", true),
                ("failed", true),
                ("answers served", true),
                ("breaker opened", true),
                ("not closed for", true),
                ("tokens in", true),
                ("tokens out", true),
            ],
            rows,
        )
    }
}

/// A number that stands for a count: digits where there are few.
pub(super) fn few(value: f64) -> String {
    let is_small = value.abs() < 10.0 && value.fract() != 0.0;
    decimal(value, usize::from(is_small))
}

fn is_few(estimate: &Estimate) -> bool {
    estimate
        .value
        .is_some_and(|value| value.abs() < 10.0 && value.fract() != 0.0)
}

/// A last line that says how many are left out.
fn more(rows: &mut Vec<Vec<String>>, all: usize, columns: usize) {
    let left = all - rows.len();
    if left > 0 {
        let mut cells = vec![String::new(); columns];
        cells[0] = format!("and {} more, in the JSON", whole(left as u64));
        rows.push(cells);
    }
}

/// A measure of a day, in its form. Some stand without their intervals, which are in the JSON.
fn cell(day: &Day, name: &str) -> String {
    let form = MEASURES
        .iter()
        .find(|measure| measure.name == name)
        .map(|measure| measure.form);
    let (Some(form), Some(estimate)) = (form, day.get(name)) else {
        return UNKNOWN.to_owned();
    };
    match form {
        Form::Share => measured(estimate, 100.0, 2, " %"),
        // Their intervals would make the lines too long to read.
        Form::Plain if name == "attempts_per_request" => alone(estimate, 3),
        Form::Usd if name != "usd_per_1k" => alone(estimate, 2),
        Form::Usd | Form::Plain => measured(estimate, 1.0, 2, ""),
        Form::Seconds => alone(estimate, 2),
    }
}

/// A value without its interval.
fn alone(estimate: &Estimate, decimals: usize) -> String {
    estimate
        .value
        .map_or_else(|| UNKNOWN.to_owned(), |value| decimal(value, decimals))
}

/// How long recovery took.
pub(super) fn recovery_in_words(recovery: &Recovery) -> String {
    if recovery.is_too_late {
        return "begins after the last request".to_owned();
    }
    if recovery.harmed.value == Some(0.0) {
        return "no harm".to_owned();
    }
    let missing = recovery.times.iter().filter(|time| time.is_none()).count();
    match (missing, recovery.times.len()) {
        (0, _) => recovery.mean_s.value.map_or_else(
            || UNKNOWN.to_owned(),
            |secs| length(Duration::from_secs_f64(secs)),
        ),
        (1, 1) => "not within the run".to_owned(),
        (some, all) if some == all => format!("not within the run, in any of {all}"),
        (some, all) => format!("not within the run in {some} of {all}"),
    }
}
