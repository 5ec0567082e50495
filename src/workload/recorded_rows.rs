//! Rows of cells become a recorded world: every cell is checked, and every bad one is reported.

mod finish;

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::NO_NAME;
use super::columns::{Layout, Role, find};
use super::draws::name_key;
use super::recorded::{ByRoute, Facts, Ids, NO_COST};
use super::recorded_spec::RecordedSpec;
use crate::router::ROUTES_MAX;
use crate::source::{Diagnostic, Location};
use crate::units::{Score, Tokens, Usd};

/// Most complaints about one file that are shown.
const SHOWN_MAX: usize = 20;
/// Most columns of one file.
const COLUMNS_MAX: usize = 10_000;
/// Most rows of one file.
const ROWS_MAX: usize = 50_000_000;

/// Where a cell of the present row stands, by column.
pub(crate) type Place<'p> = &'p dyn Fn(usize) -> Location;

/// Numbers for names, in the order of their first mention.
#[derive(Default)]
struct Interner {
    names: Vec<String>,
    index: BTreeMap<String, u16>,
}

impl Interner {
    /// `None` when there are too many.
    fn number(&mut self, name: &str) -> Option<u16> {
        if let Some(index) = self.index.get(name) {
            return Some(*index);
        }
        let index = u16::try_from(self.names.len())
            .ok()
            .filter(|index| *index != NO_NAME)?;
        self.names.push(name.to_owned());
        self.index.insert(name.to_owned(), index);
        Some(index)
    }
}

/// Takes the header and then each row of a data file.
pub(crate) struct Collector<'s> {
    spec: &'s RecordedSpec,
    path: &'s str,
    header: Vec<String>,
    layout: Layout,
    filters: Vec<(usize, &'s [String])>,
    split: Option<(usize, &'s [String])>,
    problems: Vec<Diagnostic>,
    unshown: usize,
    rows_read: usize,
    left_out: usize,
    other_routes: usize,
    token_disagreements: usize,
    rows_by_id: BTreeMap<String, usize>,
    ids: Ids,
    facts: Vec<Facts>,
    by_route: ByRoute,
    /// By route and row, in files with one row per item and route: whether that row came.
    seen: Vec<Vec<bool>>,
    tasks: Interner,
    tenants: Interner,
    languages: Interner,
    data_classes: Interner,
    routes: Interner,
}

impl<'s> Collector<'s> {
    pub(crate) fn new(spec: &'s RecordedSpec, path: &'s str) -> Self {
        Self {
            spec,
            path,
            header: Vec::new(),
            layout: Layout::default(),
            filters: Vec::new(),
            split: None,
            problems: Vec::new(),
            unshown: 0,
            rows_read: 0,
            left_out: 0,
            other_routes: 0,
            token_disagreements: 0,
            rows_by_id: BTreeMap::new(),
            ids: Ids::default(),
            facts: Vec::new(),
            by_route: ByRoute::default(),
            seen: Vec::new(),
            tasks: Interner::default(),
            tenants: Interner::default(),
            languages: Interner::default(),
            data_classes: Interner::default(),
            routes: Interner::default(),
        }
    }

    /// Adds a complaint; after twenty they are only counted, and not even put together: finding the
    /// place of each of a million bad rows would take hours.
    pub(crate) fn problem(&mut self, complaint: impl FnOnce() -> Diagnostic) {
        if self.problems.len() < SHOWN_MAX {
            self.problems.push(complaint());
        } else {
            self.unshown += 1;
        }
    }

    /// Adds a complaint about the file as a whole.
    pub(crate) fn file_problem(&mut self, message: impl Into<String>) {
        let location = self.location();
        self.problem(|| Diagnostic::error(message).at(location));
    }

    fn location(&self) -> Location {
        Location::File {
            path: self.path.to_owned(),
        }
    }

    /// Takes the column names. `false`: reading on is useless.
    pub(crate) fn header(&mut self, header: Vec<String>) -> bool {
        let mut found = Vec::new();
        let mut report = |diagnostic| found.push(diagnostic);
        let spec = self.spec;
        let routes = spec.routes.as_deref();
        self.layout = match &spec.columns {
            Some(columns) => Layout::resolve(columns, routes, &header, &mut report),
            None => Layout::guess(self.path, routes, &header, &mut report),
        };
        let mut filter = |filter: &'s super::recorded_spec::Filter| {
            let column = &filter.column;
            find(&header, &column.value, &column.location, &mut report)
                .map(|at| (at, filter.values.as_slice()))
        };
        self.filters = spec.filters.iter().filter_map(&mut filter).collect();
        self.split = spec.split.as_ref().and_then(filter);
        let mut sorted: Vec<&String> = header.iter().collect();
        sorted.sort_unstable();
        for pair in sorted.windows(2).filter(|pair| pair[0] == pair[1]) {
            found.push(
                Diagnostic::error(format!("two columns are called `{}`", pair[0]))
                    .at(self.location()),
            );
        }
        if self.layout.routes.len() > ROUTES_MAX {
            found.push(
                Diagnostic::error(format!("more than {ROUTES_MAX} routes")).at(self.location()),
            );
        }
        if header.len() > COLUMNS_MAX {
            found.push(
                Diagnostic::error(format!("more than {COLUMNS_MAX} columns")).at(self.location()),
            );
        }
        for route in &self.layout.routes {
            self.routes.number(route);
        }
        self.header = header;
        let sound = found.is_empty();
        for one in found {
            self.problem(|| one);
        }
        sound
    }

    /// The columns whose cells are looked at, in rising order. Others may be left empty.
    #[cfg(feature = "frames")]
    pub(crate) fn wanted(&self) -> Vec<usize> {
        let filters = self
            .filters
            .iter()
            .chain(&self.split)
            .map(|(column, _)| *column);
        let mut wanted: Vec<usize> = self.layout.used().chain(filters).collect();
        wanted.sort_unstable();
        wanted.dedup();
        wanted
    }

    /// Takes a row. It has as many cells as the header.
    pub(crate) fn row(&mut self, cells: &[Cow<'_, str>], place: Place<'_>) {
        self.rows_read += 1;
        let text = |column: usize| cells.get(column).map_or("", |cell| cell.trim());
        let passes = |(column, values): &(usize, &[String])| {
            let cell = text(*column);
            values.iter().any(|value| same(value, cell))
        };
        if !self.filters.iter().all(passes) {
            self.left_out += 1;
            return;
        }
        if self.facts.len() >= ROWS_MAX {
            if self.facts.len() == ROWS_MAX {
                self.file_problem(format!("more than {ROWS_MAX} rows"));
            }
            return;
        }
        let route = match self.layout.single(Role::Route) {
            Some(column) if self.layout.long => match self.route_of(text(column), column, place) {
                Some(route) => Some(route),
                None => return,
            },
            _ => None,
        };
        let train = self.split.as_ref().is_some_and(passes);
        let facts = self.read_facts(cells, train, place);
        let Some(row) = self.row_of(cells, facts, route, place) else {
            return;
        };
        match route {
            Some(route) => self.read_long(cells, row, route, place),
            None => {
                for route in 0..self.layout.routes.len() {
                    self.read_answer(cells, row, route, place);
                }
            }
        }
    }

    /// The number of the route that a row is about; `None` if the row is not wanted.
    fn route_of(&mut self, name: &str, column: usize, place: Place<'_>) -> Option<usize> {
        if name.is_empty() {
            self.bad(column, name, "the name of a route", place);
            return None;
        }
        if self.spec.routes.is_some() {
            let known = self.layout.routes.iter().position(|known| known == name);
            self.other_routes += usize::from(known.is_none());
            return known;
        }
        if let Some(known) = self.routes.index.get(name) {
            return Some(usize::from(*known));
        }
        if self.layout.routes.len() == ROUTES_MAX {
            self.bad(
                column,
                name,
                "one of the first 256 routes: there may be no more",
                place,
            );
            return None;
        }
        self.layout.routes.push(name.to_owned());
        self.routes.number(name).map(usize::from)
    }

    /// The row's place in the world: a new one, or, with one row per item and route, the item's.
    fn row_of(
        &mut self,
        cells: &[Cow<'_, str>],
        facts: Facts,
        route: Option<usize>,
        place: Place<'_>,
    ) -> Option<usize> {
        let column = self.layout.single(Role::Id);
        let id = match column {
            Some(column) => cells.get(column).map_or("", |cell| cell.trim()).to_owned(),
            None => (self.rows_read - 1).to_string(),
        };
        let column = column.unwrap_or(0);
        if id.is_empty() {
            self.bad(column, "", "an id", place);
            return None;
        }
        let known = self.rows_by_id.get(&id).copied();
        let row = known.unwrap_or(self.facts.len());
        match (known, route) {
            (None, _) => {
                self.ids.push(&id);
                self.facts.push(facts);
                self.rows_by_id.insert(id, row);
            }
            (Some(_), None) => {
                self.problem(|| {
                    Diagnostic::error(format!("the id `{id}` occurs twice")).at(place(column))
                });
                return None;
            }
            (Some(row), Some(_)) => self.merge(row, facts, &id, &|| place(column)),
        }
        if let Some(route) = route {
            if self.seen.get(route).and_then(|rows| rows.get(row)) == Some(&true) {
                let name = &self.layout.routes[route];
                let message = format!(
                    "the id `{id}` occurs twice for route `{name}`",
                    id = self.ids.get(row).unwrap_or_default()
                );
                self.problem(|| Diagnostic::error(message).at(place(column)));
                return None;
            }
            put(&mut self.seen, route, row, true, false);
        }
        Some(row)
    }

    /// A further row of an item must say the same of it. Only prompt tokens may differ, for they depend
    /// on the route's tokenizer; the largest count is kept.
    fn merge(&mut self, row: usize, facts: Facts, id: &str, place: &dyn Fn() -> Location) {
        let before = &mut self.facts[row];
        if before.input != facts.input {
            self.token_disagreements += 1;
            before.input = before.input.get().max(facts.input.get()).into();
        }
        let same_hint = before.hint.to_bits() == facts.hint.to_bits();
        let same = [
            (before.task == facts.task, "task"),
            (before.tenant == facts.tenant, "tenant"),
            (before.language == facts.language, "language"),
            (before.data_class == facts.data_class, "data class"),
            (before.tools == facts.tools, "tools"),
            (before.train == facts.train, "split"),
            (before.user == facts.user, "user"),
            (before.session == facts.session, "session"),
            (same_hint, "difficulty hint"),
            (before.output_cap == facts.output_cap, "output cap"),
            (before.prompt_chars == facts.prompt_chars, "prompt length"),
        ];
        for (_, what) in same.iter().filter(|(same, _)| !same) {
            self.problem(|| {
                Diagnostic::error(format!("rows of the id `{id}` disagree on the {what}"))
                    .at(place())
            });
        }
    }

    fn read_facts(&mut self, cells: &[Cow<'_, str>], train: bool, place: Place<'_>) -> Facts {
        let named = |role: Role, collector: &mut Self| {
            let (column, cell) = collector.cell(cells, role)?;
            let cell = cell.to_owned();
            let names = match role {
                Role::Tenant => &mut collector.tenants,
                Role::Language => &mut collector.languages,
                Role::DataClass => &mut collector.data_classes,
                _ => &mut collector.tasks,
            };
            let number = names.number(&cell);
            if number.is_none() {
                collector.bad(column, &cell, "one of the first 65,535 names", place);
            }
            number
        };
        let tenant = named(Role::Tenant, self);
        let language = named(Role::Language, self);
        let data_class = named(Role::DataClass, self);
        let task = named(Role::Task, self).or_else(|| {
            // No task column, or nothing in it.
            let name = match self.layout.single(Role::Task) {
                Some(_) => "(none)",
                None => "all",
            };
            self.tasks.number(name)
        });
        let identity = |role: Role| {
            let (_, cell) = self.cell(cells, role)?;
            Some(name_key(role.key(), cell))
        };
        let (user, session) = (identity(Role::User), identity(Role::Session));
        let tools = self
            .parsed(
                cells,
                Role::Tools,
                "true, false, 1 or 0",
                place,
                |cell| match cell {
                    "1" | "true" | "True" | "TRUE" => Some(true),
                    "0" | "false" | "False" | "FALSE" => Some(false),
                    _ => None,
                },
            )
            .unwrap_or(false);
        let hint = self.parsed(
            cells,
            Role::DifficultyHint,
            "a finite number",
            place,
            finite,
        );
        // In files with one row per item and route, answer tokens belong to the route.
        let shared_output = self
            .layout
            .single(Role::OutputTokens)
            .filter(|_| !self.layout.long);
        let [input, output_cap, prompt_chars, output] = [
            self.layout.single(Role::InputTokens),
            self.layout.single(Role::OutputCap),
            self.layout.single(Role::PromptChars),
            shared_output,
        ]
        .map(|column| self.tokens(cells, column, place));
        Facts {
            task: task.unwrap_or(0),
            tenant: tenant.unwrap_or(NO_NAME),
            language: language.unwrap_or(NO_NAME),
            data_class: data_class.unwrap_or(NO_NAME),
            tools,
            train,
            user,
            session,
            hint: hint.unwrap_or(f64::NAN),
            input,
            output,
            output_cap,
            prompt_chars,
        }
    }

    /// The row's cells about `route`, of a file with a column for each route.
    fn read_answer(&mut self, cells: &[Cow<'_, str>], row: usize, route: usize, place: Place<'_>) {
        let column = |layout: &Layout, role| layout.by_route(role).map(|columns| columns[route]);
        let [grade, output, verifier, cost, latency] = [
            Role::Grade,
            Role::OutputTokens,
            Role::VerifierDraw,
            Role::Cost,
            Role::LatencyMs,
        ]
        .map(|role| column(&self.layout, role));
        self.put_answer(
            cells,
            row,
            route,
            [grade, output, verifier, cost, latency],
            place,
        );
    }

    /// The row's cells, of a file with one row per item and route.
    fn read_long(&mut self, cells: &[Cow<'_, str>], row: usize, route: usize, place: Place<'_>) {
        let columns = [
            Role::Grade,
            Role::OutputTokens,
            Role::VerifierDraw,
            Role::Cost,
            Role::LatencyMs,
        ]
        .map(|role| self.layout.single(role));
        self.put_answer(cells, row, route, columns, place);
    }

    fn put_answer(
        &mut self,
        cells: &[Cow<'_, str>],
        row: usize,
        route: usize,
        [grade, output, verifier, cost, latency]: [Option<usize>; 5],
        place: Place<'_>,
    ) {
        let score = self
            .parsed_at(
                cells,
                grade,
                "a grade: 0, 1, true, false, or a score between 0 and 1",
                place,
                parse_grade,
            )
            .unwrap_or(Score::MISSING);
        put(&mut self.by_route.grade, route, row, score, Score::MISSING);
        if output.is_some() {
            let tokens = self.tokens(cells, output, place);
            let columns = self.by_route.output.get_or_insert_default();
            put(columns, route, row, tokens, Tokens::UNKNOWN);
        }
        if verifier.is_some() {
            let lane = self.parsed_at(
                cells,
                verifier,
                "a verifier's uniform between 0 and 1",
                place,
                // The lane whose cell holds the number; a float-to-integer `as` saturates.
                |cell| {
                    finite(cell)
                        .filter(|u| (0.0..=1.0).contains(u))
                        .map(|u| (u * 4_294_967_296.0) as u32)
                },
            );
            let columns = self.by_route.verifier.get_or_insert_default();
            put(columns, route, row, lane, None);
        }
        if cost.is_some() {
            let usd = self.parsed_at(cells, cost, "a cost in USD, 0 or more", place, |cell| {
                finite(cell).and_then(Usd::from_f64)
            });
            let columns = self.by_route.cost.get_or_insert_default();
            let units = usd.map_or(NO_COST, |usd| usd.0);
            put(columns, route, row, units, NO_COST);
        }
        // Latency is not used yet; that it makes sense is checked all the same.
        self.parsed_at(cells, latency, "milliseconds, 0 or more", place, |cell| {
            finite(cell).filter(|milliseconds| *milliseconds >= 0.0)
        });
    }

    /// The column of a role and the row's cell in it, unless it is missing.
    fn cell<'c>(&self, cells: &'c [Cow<'_, str>], role: Role) -> Option<(usize, &'c str)> {
        let column = self.layout.single(role)?;
        let cell = cells.get(column).map_or("", |cell| cell.trim());
        (!self.spec.is_missing(cell)).then_some((column, cell))
    }

    fn parsed<T>(
        &mut self,
        cells: &[Cow<'_, str>],
        role: Role,
        what: &str,
        place: Place<'_>,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        self.parsed_at(cells, self.layout.single(role), what, place, parse)
    }

    /// A cell's value; `None` if it is missing or (reported) not what was expected.
    fn parsed_at<T>(
        &mut self,
        cells: &[Cow<'_, str>],
        column: Option<usize>,
        what: &str,
        place: Place<'_>,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let column = column?;
        let cell = cells.get(column).map_or("", |cell| cell.trim());
        if self.spec.is_missing(cell) {
            return None;
        }
        let value = parse(cell);
        if value.is_none() {
            self.bad(column, cell, what, place);
        }
        value
    }

    fn tokens(
        &mut self,
        cells: &[Cow<'_, str>],
        column: Option<usize>,
        place: Place<'_>,
    ) -> Tokens {
        self.parsed_at(cells, column, "a whole number, 0 or more", place, |cell| {
            let number = finite(cell)?;
            let whole = number >= 0.0 && number < f64::from(u32::MAX) && number.fract() == 0.0;
            whole.then_some(number as u32)
        })
        .into()
    }

    fn bad(&mut self, column: usize, cell: &str, what: &str, place: Place<'_>) {
        let name = self.header.get(column).cloned().unwrap_or_default();
        self.problem(|| {
            let shown: String = cell.chars().take(60).collect();
            Diagnostic::error(format!("column `{name}`: `{shown}` is not {what}"))
                .at(place(column))
                .label(format!("expected {what}"))
        });
    }
}

/// Sets a cell of a column by route, which grows as needed.
fn put<T: Clone>(columns: &mut Vec<Vec<T>>, route: usize, row: usize, value: T, empty: T) {
    if columns.len() <= route {
        columns.resize_with(route + 1, Vec::new);
    }
    let column = &mut columns[route];
    if column.len() <= row {
        column.resize(row + 1, empty);
    }
    column[row] = value;
}

/// Whether two cells say the same: the same text, or the same number (`0` and `0.0`, for columns that
/// one format keeps as whole numbers and another does not).
pub(crate) fn same(one: &str, other: &str) -> bool {
    one == other
        || finite(one)
            .zip(finite(other))
            .is_some_and(|(one, other)| one == other)
}

fn finite(cell: &str) -> Option<f64> {
    cell.parse::<f64>().ok().filter(|number| number.is_finite())
}

fn parse_grade(cell: &str) -> Option<Score> {
    match cell {
        "0" | "false" | "False" | "FALSE" => Some(Score::WRONG),
        "1" | "true" | "True" | "TRUE" => Some(Score::RIGHT),
        _ => finite(cell).and_then(Score::from_fraction),
    }
}
