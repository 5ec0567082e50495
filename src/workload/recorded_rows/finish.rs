//! After the last row: is there anything to judge on, and what has to be said about the data?

use super::super::recorded::{NO_COST, Names, Recorded};
use super::Collector;
use crate::source::{Diagnostic, Diagnostics};
use crate::units::{Score, Tokens};

impl Collector<'_> {
    /// The world, its names, and what is to be said about the data.
    pub(crate) fn finish(
        mut self,
        diagnostics: &mut Diagnostics,
    ) -> Option<(Recorded, Names, Vec<String>)> {
        if self.problems.is_empty() {
            self.check_rows();
        }
        if !self.problems.is_empty() {
            diagnostics.0.append(&mut self.problems);
            if self.unshown > 0 {
                let message = format!("and {} more problems in this file", self.unshown);
                diagnostics.push(Diagnostic::error(message).at(self.location()));
            }
            return None;
        }
        let (rows, routes) = (self.facts.len(), self.layout.routes.len());
        fill_up(&mut self.by_route.grade, routes, rows, Score::MISSING);
        if let Some(columns) = &mut self.by_route.output {
            fill_up(columns, routes, rows, Tokens::UNKNOWN);
        }
        if let Some(columns) = &mut self.by_route.verifier {
            fill_up(columns, routes, rows, None);
        }
        if let Some(columns) = &mut self.by_route.cost {
            fill_up(columns, routes, rows, NO_COST);
        }
        let wanted_rows = self.wanted_rows();
        let names = Names {
            tasks: self.tasks.names,
            tenants: self.tenants.names,
            languages: self.languages.names,
            data_classes: self.data_classes.names,
            routes: self.layout.routes,
        };
        let has_split = self.split.is_some();
        let world = Recorded::new(&self.ids, &self.facts, &self.by_route, &names, has_split);
        let mut notes = vec![format!("{} rows read", self.rows_read)];
        if self.left_out > 0 {
            notes.push(format!(
                "{} rows left out: only rows with {wanted_rows} are kept",
                self.left_out
            ));
        }
        if self.other_routes > 0 {
            notes.push(format!(
                "{} rows of other routes left out",
                self.other_routes
            ));
        }
        if has_split {
            notes.push(format!(
                "{} training rows, which are never judged",
                rows - world.judged()
            ));
        }
        if self.token_disagreements > 0 {
            notes.push(format!(
                "prompt tokens differ between rows of one id {} times (tokenizers differ): the largest count is used",
                self.token_disagreements
            ));
        }
        for (route, missing) in names.routes.iter().zip(world.missing_grades()) {
            if missing > 0 {
                notes.push(format!(
                    "{missing} of {} grades of {route} are missing",
                    world.judged()
                ));
            }
        }
        let fractional = world.fractional_grades();
        if fractional > 0 {
            notes.push(format!("{fractional} grades are neither 0 nor 1"));
        }
        Some((world, names, notes))
    }

    /// The filters in words.
    fn wanted_rows(&self) -> String {
        let filters: Vec<String> = self
            .spec
            .filters
            .iter()
            .map(|filter| format!("{} = {}", filter.column.value, filter.values.join(" or ")))
            .collect();
        filters.join(" and ")
    }

    fn check_rows(&mut self) {
        let training = self.facts.iter().filter(|facts| facts.train).count();
        let graded = self
            .by_route
            .grade
            .iter()
            .flatten()
            .any(|grade| !grade.is_missing());
        if self.rows_read == 0 {
            self.file_problem("the file has no rows");
        } else if self.facts.is_empty() {
            let message = format!("none of the {} rows is wanted", self.rows_read);
            let mut problem = Diagnostic::error(message).at(self.location());
            if let Some(filter) = self.spec.filters.first() {
                problem = problem
                    .at(filter.column.location.clone())
                    .help(format!("only rows with {} are kept", self.wanted_rows()));
            }
            self.problem(|| problem);
        } else if self.split.is_some() && training == 0 {
            self.file_problem("no row is a training row");
        } else if training == self.facts.len() {
            self.file_problem("every row is a training row: none is left to judge on");
        } else if !graded {
            self.file_problem("there is not a single grade");
        }
    }
}

/// Makes all columns equally long.
fn fill_up<T: Clone>(columns: &mut Vec<Vec<T>>, routes: usize, rows: usize, empty: T) {
    columns.resize_with(routes, Vec::new);
    for column in columns {
        column.resize(rows, empty.clone());
    }
}
