//! Which column of a data file plays which role, by configuration or by the usual names.

use crate::source::{At, Diagnostic, Location, Table, describe_list, nearest};

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    Id,
    Task,
    Tenant,
    Language,
    DataClass,
    User,
    Session,
    Tools,
    DifficultyHint,
    InputTokens,
    OutputTokens,
    OutputCap,
    PromptChars,
    Grade,
    VerifierDraw,
    Cost,
    LatencyMs,
    /// The name of the route that a row is about, in files with one row per item and route.
    Route,
}

/// A role's key in configuration, whether its column may differ by route, and the usual names.
struct About {
    role: Role,
    key: &'static str,
    by_route: bool,
    usual: &'static [&'static str],
}

/// The mark for a route's name in a column name.
const MARK: &str = "{route}";

const ROLES: [About; 18] = [
    about(
        Role::Id,
        "id",
        false,
        &[
            "id",
            "prompt_id",
            "question_id",
            "global_index",
            "sample_id",
        ],
    ),
    about(
        Role::Task,
        "task",
        false,
        &["task", "domain", "category", "dataset"],
    ),
    about(Role::Tenant, "tenant", false, &["tenant"]),
    about(Role::Language, "language", false, &["language"]),
    about(Role::DataClass, "data_class", false, &["data_class"]),
    about(Role::User, "user", false, &["user", "user_id"]),
    about(
        Role::Session,
        "session",
        false,
        &["session", "session_id", "conversation_id"],
    ),
    about(Role::Tools, "tools", false, &["tools"]),
    about(
        Role::DifficultyHint,
        "difficulty_hint",
        false,
        &["difficulty_hint", "difficulty_estimate"],
    ),
    about(
        Role::InputTokens,
        "input_tokens",
        false,
        &["input_tokens", "prompt_tokens"],
    ),
    about(
        Role::OutputTokens,
        "output_tokens",
        true,
        &[
            "output_tokens_{route}",
            "completion_tokens_{route}",
            "{route}_output_tokens",
            "output_tokens",
            "completion_tokens",
        ],
    ),
    about(
        Role::OutputCap,
        "output_cap",
        false,
        &["output_cap", "max_tokens"],
    ),
    about(Role::PromptChars, "prompt_chars", false, &["prompt_chars"]),
    about(
        Role::Grade,
        "grade",
        true,
        &[
            "grade_{route}",
            "correct_{route}",
            "{route}_correct",
            "score_{route}",
            "{route}_score",
            "{route}_grade",
        ],
    ),
    about(
        Role::VerifierDraw,
        "verifier_draw",
        true,
        &["verifier_draw_{route}", "verifier_u_{route}"],
    ),
    about(
        Role::Cost,
        "cost",
        true,
        &[
            "cost_{route}",
            "cost_usd_{route}",
            "{route}_cost",
            "{route}_cost_usd",
        ],
    ),
    about(
        Role::LatencyMs,
        "latency_ms",
        true,
        &["latency_ms_{route}", "{route}_latency_ms"],
    ),
    about(Role::Route, "route", false, &["route", "model"]),
];

/// Names of the columns that are "by route" in files with one row per item and route.
const USUAL_LONG: [(Role, &[&str]); 5] = [
    (Role::Grade, &["grade", "correct", "score", "quality"]),
    (Role::OutputTokens, &["output_tokens", "completion_tokens"]),
    (Role::VerifierDraw, &["verifier_draw", "verifier_u"]),
    (Role::Cost, &["cost", "cost_usd"]),
    (Role::LatencyMs, &["latency_ms"]),
];

const fn about(
    role: Role,
    key: &'static str,
    by_route: bool,
    usual: &'static [&'static str],
) -> About {
    About {
        role,
        key,
        by_route,
        usual,
    }
}

/// What a column can hold: the key in configuration, and the names by which it is found without it.
pub(crate) fn roles() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    ROLES.iter().map(|about| (about.key, about.usual))
}

impl Role {
    /// Its key in configuration and its name in messages.
    pub(crate) fn key(self) -> &'static str {
        ROLES
            .iter()
            .find(|about| about.role == self)
            .map_or("", |about| about.key)
    }
}

/// Column names as configured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Columns {
    named: Vec<(Role, At<String>)>,
}

impl Columns {
    /// Reads the columns' keys of a table. It does not finish the table.
    pub(crate) fn read(table: &mut Table<'_>) -> Self {
        let mut named = Vec::new();
        for about in &ROLES {
            let Some(name) = table.get(about.key).and_then(|value| value.string()) else {
                continue;
            };
            let marks = name.value.matches(MARK).count();
            let complaint = match (marks, about.by_route) {
                (0, _) | (1, true) => None,
                (_, true) => Some(format!("`{}` has {MARK} more than once", name.value)),
                (_, false) => Some(format!("`{}` is one column for all routes", about.key)),
            };
            if let Some(message) = complaint {
                table
                    .context()
                    .report(Diagnostic::error(message).at(name.location.clone()));
            }
            named.push((about.role, name));
        }
        let columns = Self { named };
        columns.check(table);
        columns
    }

    /// The same for a file in which all column keys may be absent: then default names are looked for.
    pub(crate) fn read_some(table: &mut Table<'_>) -> Option<Self> {
        let present = ROLES.iter().any(|about| table.get(about.key).is_some());
        present.then(|| Self::read(table))
    }

    fn check(&self, table: &Table<'_>) {
        let long = self.get(Role::Route).is_some();
        let Some(grade) = self.get(Role::Grade) else {
            table.error(format!(
                "the columns need a `grade`, such as grade = \"correct_{MARK}\""
            ));
            return;
        };
        let report = |at: &At<String>, message: String| {
            table
                .context()
                .report(Diagnostic::error(message).at(at.location.clone()));
        };
        if long && self.get(Role::Id).is_none() {
            table.error(
                "a file with one row per item and route needs an `id` column to join rows by",
            );
        }
        if !long && !grade.value.contains(MARK) {
            report(
                grade,
                format!(
                    "`grade` needs {MARK} in its name, or a column `route` that tells the route of a row"
                ),
            );
        }
        for (role, name) in &self.named {
            let marked = name.value.contains(MARK);
            if long && marked {
                report(
                    name,
                    format!(
                        "with a `route` column, `{}` is one column: leave out {MARK}",
                        role.key()
                    ),
                );
            }
            let needs = matches!(role, Role::VerifierDraw | Role::Cost | Role::LatencyMs);
            if !long && !marked && needs {
                report(name, format!("`{}` needs {MARK} in its name", role.key()));
            }
        }
    }

    /// The name of a role's column.
    pub(crate) fn get(&self, role: Role) -> Option<&At<String>> {
        self.named
            .iter()
            .find(|(named, _)| *named == role)
            .map(|(_, name)| name)
    }
}

/// Where each role is found in a header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Columns that all routes share, by role.
    single: Vec<(Role, usize)>,
    /// Columns by route, by role.
    by_route: Vec<(Role, Vec<usize>)>,
    /// The routes, when the header tells them.
    pub(crate) routes: Vec<String>,
    /// Whether each row is about one route.
    pub(crate) long: bool,
}

impl Layout {
    /// The column of a role that all routes share.
    pub(crate) fn single(&self, role: Role) -> Option<usize> {
        self.single
            .iter()
            .find(|(known, _)| *known == role)
            .map(|(_, column)| *column)
    }

    /// The columns of a role, one for each route.
    pub(crate) fn by_route(&self, role: Role) -> Option<&[usize]> {
        self.by_route
            .iter()
            .find(|(known, _)| *known == role)
            .map(|(_, columns)| columns.as_slice())
    }

    /// All columns that play a role.
    #[cfg(feature = "frames")]
    pub(crate) fn used(&self) -> impl Iterator<Item = usize> {
        let single = self.single.iter().map(|(_, column)| *column);
        single.chain(
            self.by_route
                .iter()
                .flat_map(|(_, columns)| columns.iter().copied()),
        )
    }

    /// Finds the configured columns in `header`; complaints go to `report`.
    pub(crate) fn resolve(
        columns: &Columns,
        routes: Option<&[At<String>]>,
        header: &[String],
        report: &mut dyn FnMut(Diagnostic),
    ) -> Self {
        let mut layout = Self {
            long: columns.get(Role::Route).is_some(),
            ..Self::default()
        };
        if layout.long {
            layout.routes = routes.map(names).unwrap_or_default();
        } else if let Some(grade) = columns.get(Role::Grade) {
            layout.routes = match routes {
                Some(routes) => names(routes),
                None => routes_of(grade, header, report),
            };
        }
        for (role, name) in &columns.named {
            if name.value.contains(MARK) {
                let found: Vec<usize> = layout
                    .routes
                    .iter()
                    .filter_map(|route| {
                        let wanted = name.value.replace(MARK, route);
                        find(header, &wanted, &name.location, report)
                    })
                    .collect();
                if found.len() == layout.routes.len() {
                    layout.by_route.push((*role, found));
                }
            } else if let Some(column) = find(header, &name.value, &name.location, report) {
                layout.single.push((*role, column));
            }
        }
        layout
    }

    /// Finds columns by their usual names.
    pub(crate) fn guess(
        path: &str,
        routes: Option<&[At<String>]>,
        header: &[String],
        report: &mut dyn FnMut(Diagnostic),
    ) -> Self {
        let mut layout = Self::default();
        let position = |name: &str| header.iter().position(|known| known == name);
        let grades = ROLES
            .iter()
            .find(|about| about.role == Role::Grade)
            .map_or(&[][..], |about| about.usual);
        for pattern in grades {
            let found = match routes {
                Some(routes) => {
                    let all = names(routes);
                    let there = |route: &String| position(&pattern.replace(MARK, route)).is_some();
                    if all.iter().all(there) {
                        all
                    } else {
                        Vec::new()
                    }
                }
                None => matching(pattern, header),
            };
            if !found.is_empty() {
                layout.routes = found;
                break;
            }
        }
        if layout.routes.is_empty() {
            let route = usual(Role::Route).iter().find_map(|name| position(name));
            let grade = USUAL_LONG[0].1.iter().find_map(|name| position(name));
            let id = usual(Role::Id).iter().find_map(|name| position(name));
            if let (Some(_), Some(_), Some(_)) = (route, grade, id) {
                layout.long = true;
                layout.routes = routes.map(names).unwrap_or_default();
            } else {
                report(
                    Diagnostic::error("no column looks like a route's grades")
                        .at(Location::File {
                            path: path.to_owned(),
                        })
                        .help(format!("columns: {}", describe_list(header.iter().map(String::as_str))))
                        .help("usual names are grade_<route>, correct_<route>, <route>_correct, score_<route>, or `model` and `score` with one row per item and route; name others in a columns file"),
                );
                return layout;
            }
        }
        for about in &ROLES {
            let long_names = USUAL_LONG.iter().find(|(role, _)| *role == about.role);
            if let (true, Some((_, usual))) = (layout.long, long_names) {
                if let Some(column) = usual.iter().find_map(|name| position(name)) {
                    layout.single.push((about.role, column));
                }
                continue;
            }
            if about.role == Role::Route && !layout.long {
                continue;
            }
            for name in about.usual {
                if !name.contains(MARK) {
                    if let Some(column) = position(name) {
                        layout.single.push((about.role, column));
                        break;
                    }
                    continue;
                }
                let found: Vec<usize> = layout
                    .routes
                    .iter()
                    .filter_map(|route| position(&name.replace(MARK, route)))
                    .collect();
                if !found.is_empty() && found.len() == layout.routes.len() {
                    layout.by_route.push((about.role, found));
                    break;
                }
            }
        }
        layout
    }
}

fn usual(role: Role) -> &'static [&'static str] {
    ROLES
        .iter()
        .find(|about| about.role == role)
        .map_or(&[], |about| about.usual)
}

fn names(routes: &[At<String>]) -> Vec<String> {
    routes.iter().map(|route| route.value.clone()).collect()
}

/// What stands for the mark, in each header name that fits the pattern.
fn matching(pattern: &str, header: &[String]) -> Vec<String> {
    let Some((before, after)) = pattern.split_once(MARK) else {
        return Vec::new();
    };
    header
        .iter()
        .filter_map(|name| name.strip_prefix(before)?.strip_suffix(after))
        .filter(|route| !route.is_empty())
        .map(str::to_owned)
        .collect()
}

fn routes_of(
    grade: &At<String>,
    header: &[String],
    report: &mut dyn FnMut(Diagnostic),
) -> Vec<String> {
    if grade.value == MARK {
        report(
            Diagnostic::error(format!("`{MARK}` alone fits every column"))
                .at(grade.location.clone())
                .help("list the routes: routes = [\"…\", \"…\"]"),
        );
        return Vec::new();
    }
    let routes = matching(&grade.value, header);
    if routes.is_empty() {
        report(
            Diagnostic::error(format!("no column of the data fits `{}`", grade.value))
                .at(grade.location.clone())
                .help(format!(
                    "columns: {}",
                    describe_list(header.iter().map(String::as_str))
                )),
        );
    }
    routes
}

/// The position of a column, or a complaint with the nearest name.
pub(crate) fn find(
    header: &[String],
    name: &str,
    location: &Location,
    report: &mut dyn FnMut(Diagnostic),
) -> Option<usize> {
    let found = header.iter().position(|known| known == name);
    if found.is_none() {
        let help = match nearest(name, header.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!(
                "columns: {}",
                describe_list(header.iter().map(String::as_str))
            ),
        };
        report(
            Diagnostic::error(format!("the data has no column `{name}`"))
                .at(location.clone())
                .help(help),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(names: &str) -> Vec<String> {
        names.split(',').map(str::to_owned).collect()
    }

    fn guess(names: &str) -> (Layout, Vec<String>) {
        let mut messages = Vec::new();
        let layout = Layout::guess("d.csv", None, &header(names), &mut |one| {
            messages.push(one.message);
        });
        (layout, messages)
    }

    #[test]
    fn usual_names_are_found_in_wide_files() {
        let (layout, messages) =
            guess("id,domain,prompt_chars,weak_correct,strong_correct,cost_strong,cost_weak");
        assert!(messages.is_empty());
        assert_eq!(layout.routes, ["weak", "strong"]);
        assert_eq!(layout.single(Role::Task), Some(1));
        assert_eq!(layout.by_route(Role::Grade), Some(&[3, 4][..]));
        assert_eq!(layout.by_route(Role::Cost), Some(&[6, 5][..]));
        assert_eq!(layout.by_route(Role::VerifierDraw), None);
        assert!(!layout.long);
    }

    #[test]
    fn usual_names_are_found_in_long_files() {
        let (layout, messages) = guess("global_index,dataset,category,model,score,cost_usd");
        assert!(messages.is_empty());
        assert!(layout.long && layout.routes.is_empty());
        assert_eq!(layout.single(Role::Id), Some(0));
        // `category` comes before `dataset` in the list of usual names.
        assert_eq!(layout.single(Role::Task), Some(2));
        assert_eq!(layout.single(Role::Grade), Some(4));
        assert_eq!(layout.single(Role::Cost), Some(5));
    }

    #[test]
    fn a_file_without_grades_is_refused_with_its_columns() {
        let (_, messages) = guess("a,b,c");
        assert_eq!(messages, ["no column looks like a route's grades"]);
    }
}
