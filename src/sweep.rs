//! One or two parameters over a range: which values there are, and which experiments they need.
//!
//! A parameter is a key in one of the files that an experiment reads, written in front of the values it
//! takes: `policy.cascade.verifier.simulated.accept_if_wrong=0:0.6:0.1`. The first word says which file:
//! `policy` and `workload` stand for the two files, and `route`, `router` and `require` are the tables of
//! the route catalogue themselves. `margin` is the margin of "not worse". A value is written into the
//! text of the file ([`Spot::replaced`]), which is then read as always, so every check of a reader holds
//! for every point.
//!
//! A [`Grid`] sorts the points by what they need. Points that differ in the policy alone are contestants
//! of one experiment. Points that differ in the workload or the catalogue live in different *worlds*:
//! nobody can choose between those, so fronts are drawn within a world. Points that differ in the margin
//! share everything but a verdict. What this module is not: it runs nothing and reads no file.

mod decimal;
mod parameter;
mod spot;

pub use parameter::{Parameter, Scope};
pub use spot::Spot;

use crate::source::Diagnostic;

/// Most parameters of one sweep.
pub const PARAMETERS_MAX: usize = 2;
/// Most points of one sweep.
pub const POINTS_MAX: usize = 1000;

/// One point of a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// For each parameter the number of its value.
    pub values: Vec<usize>,
    /// Number of its world, see [`Grid::worlds`].
    pub world: usize,
    /// Number of its policy, see [`Grid::policies`].
    pub policy: usize,
}

/// A value of a parameter: the numbers of both.
pub type Setting = (usize, usize);

/// All points, and the different experiments behind them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    /// The parameters, in the order given.
    pub parameters: Vec<Parameter>,
    /// Every combination of values; the first parameter's change fastest.
    pub points: Vec<Point>,
    /// By world: the settings of parameters of workload and catalogue. One without settings if there are
    /// no such parameters.
    pub worlds: Vec<Vec<Setting>>,
    /// By policy: the settings of parameters of the policy. One without settings if there are none.
    pub policies: Vec<Vec<Setting>>,
}

impl Grid {
    /// Every combination of the parameters' values.
    ///
    /// # Errors
    ///
    /// What is wrong: no parameter, more than [`PARAMETERS_MAX`], more than [`POINTS_MAX`] combinations, or
    /// the same parameter twice.
    pub fn new(parameters: Vec<Parameter>) -> Result<Self, Box<Diagnostic>> {
        if parameters.is_empty() {
            return Err(Diagnostic::error("there is nothing to vary").into());
        }
        if parameters.len() > PARAMETERS_MAX {
            return Err(Diagnostic::error(format!(
                "at most {PARAMETERS_MAX} parameters can be varied at once, not {}",
                parameters.len()
            ))
            .help("run several sweeps; the traffic is the same in all of them if the seed is")
            .into());
        }
        if let [one, other] = parameters.as_slice()
            && one.is_same_key(other)
        {
            return Err(Diagnostic::error(format!("`{}` is varied twice", one.path))
                .help("give all of its values in one list, separated by commas")
                .into());
        }
        // No parameter has more than POINTS_MAX values, so the product fits.
        let count: usize = parameters.iter().map(|one| one.values.len()).product();
        if count > POINTS_MAX {
            let counts: Vec<String> = parameters
                .iter()
                .map(|one| one.values.len().to_string())
                .collect();
            return Err(Diagnostic::error(format!(
                "a sweep has at most {POINTS_MAX} points, not {} = {count}",
                counts.join(" · ")
            ))
            .help("take larger steps or shorter ranges")
            .into());
        }
        let mut grid = Self {
            parameters,
            points: Vec::with_capacity(count),
            worlds: Vec::new(),
            policies: Vec::new(),
        };
        for index in 0..count {
            let mut rest = index;
            let values: Vec<usize> = grid
                .parameters
                .iter()
                .map(|parameter| {
                    let value = rest % parameter.values.len();
                    rest /= parameter.values.len();
                    value
                })
                .collect();
            let settings = |of: fn(Scope) -> bool| -> Vec<Setting> {
                let all = values.iter().copied().enumerate();
                all.filter(|&(parameter, _)| of(grid.parameters[parameter].scope))
                    .collect()
            };
            let world = settings(|scope| matches!(scope, Scope::Workload | Scope::Catalogue));
            let policy = settings(|scope| scope == Scope::Policy);
            let point = Point {
                values,
                world: place(&mut grid.worlds, world),
                policy: place(&mut grid.policies, policy),
            };
            grid.points.push(point);
        }
        Ok(grid)
    }

    /// The settings that concern one file.
    pub fn settings_of<'g>(
        &'g self,
        settings: &'g [Setting],
        scope: Scope,
    ) -> impl Iterator<Item = (&'g Parameter, &'g str)> {
        settings.iter().filter_map(move |&(parameter, value)| {
            let parameter = &self.parameters[parameter];
            (parameter.scope == scope).then(|| (parameter, parameter.values[value].as_str()))
        })
    }

    /// Settings in words, such as `accept_if_wrong = 0.1, correlation = 0.25`.
    #[must_use]
    pub fn in_words(&self, settings: &[Setting]) -> String {
        let labels = self.labels();
        let words: Vec<String> = settings
            .iter()
            .map(|&(parameter, value)| {
                let of = &self.parameters[parameter].values[value];
                format!("{} = {of}", labels[parameter])
            })
            .collect();
        words.join(", ")
    }

    /// The margin of a point: its own if the margin is varied, else `otherwise`.
    #[must_use]
    pub fn margin(&self, point: &Point, otherwise: f64) -> f64 {
        let varied = self.parameters.iter().zip(&point.values);
        varied
            .filter(|(parameter, _)| parameter.scope == Scope::Margin)
            .find_map(|(parameter, value)| parameter.values[*value].parse().ok())
            .unwrap_or(otherwise)
    }

    /// A short name for each parameter: as many words from the end of its path as tell them apart.
    #[must_use]
    pub fn labels(&self) -> Vec<String> {
        let paths: Vec<Vec<&str>> = self.parameters.iter().map(|one| one.path_words()).collect();
        let longest = paths.iter().map(Vec::len).max().unwrap_or(1);
        for count in 1..longest {
            let end = |all: &Vec<&str>| all[all.len().saturating_sub(count)..].join(".");
            let labels: Vec<String> = paths.iter().map(end).collect();
            if labels.windows(2).all(|two| two[0] != two[1]) {
                return labels;
            }
        }
        self.parameters.iter().map(|one| one.path.clone()).collect()
    }
}

/// The number of `settings` in `known`, which it joins if it is new.
fn place(known: &mut Vec<Vec<Setting>>, settings: Vec<Setting>) -> usize {
    known
        .iter()
        .position(|one| *one == settings)
        .unwrap_or_else(|| {
            known.push(settings);
            known.len() - 1
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(vary: &[&str]) -> Result<Grid, String> {
        let parameters = vary.iter().map(|text| Parameter::parse(text).unwrap());
        Grid::new(parameters.collect()).map_err(|error| error.message)
    }

    #[test]
    fn points_of_one_world_are_contestants_of_one_experiment() {
        let grid = grid(&["policy.a.b=1,2,3", "workload.c=0,1"]).unwrap();
        assert_eq!(grid.points.len(), 6);
        assert_eq!(grid.worlds, [vec![(1, 0)], vec![(1, 1)]]);
        assert_eq!(grid.policies, [vec![(0, 0)], vec![(0, 1)], vec![(0, 2)]]);
        assert_eq!(
            grid.points[4],
            Point {
                values: vec![1, 1],
                world: 1,
                policy: 1
            }
        );
        assert_eq!(grid.in_words(&[(0, 2), (1, 0)]), "b = 3, c = 0");
    }

    #[test]
    fn a_margin_needs_neither_a_world_nor_a_policy_of_its_own() {
        let grid = grid(&["margin=0.01,0.05", "policy.a=x,y"]).unwrap();
        assert_eq!((grid.worlds.len(), grid.policies.len()), (1, 2));
        let margins: Vec<f64> = grid.points.iter().map(|p| grid.margin(p, 0.03)).collect();
        assert_eq!(margins, [0.01, 0.05, 0.01, 0.05]);
    }

    #[test]
    fn labels_are_as_short_as_they_can_be() {
        let labels = |vary: &[&str]| grid(vary).unwrap().labels();
        assert_eq!(
            labels(&["policy.a.rate=1", "workload.b.size=1"]),
            ["rate", "size"]
        );
        assert_eq!(
            labels(&["route.small.price.input=1", "route.large.price.input=1"]),
            ["small.price.input", "large.price.input"]
        );
        assert_eq!(
            labels(&["policy.rate=1", "workload.rate=1"]),
            ["policy.rate", "workload.rate"]
        );
        assert_eq!(labels(&["margin=0.01"]), ["margin"]);
        assert_eq!(labels(&["policy.task.\"a.b\"=1"]), ["\"a.b\""]);
    }

    #[test]
    fn too_much_is_refused_with_the_numbers() {
        assert!(grid(&[]).unwrap_err().contains("nothing to vary"));
        assert!(
            grid(&["policy.a=1", "policy.b=1", "policy.c=1"])
                .unwrap_err()
                .contains("not 3")
        );
        let many = grid(&["policy.a=1:100:1", "policy.b=1:11:1"]).unwrap_err();
        assert!(many.contains("100 · 11 = 1100"), "{many}");
        assert_eq!(
            grid(&["policy.a=1:100:1", "policy.b=1:10:1"])
                .unwrap()
                .points
                .len(),
            1000
        );
        assert!(
            grid(&["policy.a=1", "policy.\"a\"=2"])
                .unwrap_err()
                .contains("twice")
        );
    }
}
