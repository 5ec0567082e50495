//! Reading a ramp from a policy file, and saying what in it cannot come about.

use super::ramp::{Ramp, Step};
use crate::source::{Diagnostic, Location, Table, Value};
use crate::stats::Sprt;

/// Most steps of a ramp. Reasons of canaries within canaries, to the depth that files may nest, fit 32 bits
/// with it.
const STEPS_MAX: usize = 12;
/// Most graded answers that a step may wait for.
const MIN_GRADED_MAX: u64 = 1_000_000_000;
/// How much worse than its control a candidate may be taken to be.
const RATIO_MIN: f64 = 1.01;
const RATIO_MAX: f64 = 1_000.0;
/// Error rates of a test that names none: the chance to withdraw a sound candidate, and to keep a bad one.
const ALPHA: f64 = 0.05;
const BETA: f64 = 0.10;

/// How to write a test.
const TESTS: &str = "write `abort.sprt = { p0 = 0.05, p1 = 0.10 }`, the error rates that are fine and too high, or `abort.control = { ratio = 2.0 }`";

/// A ramp, and where its steps stand in the file.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) ramp: Ramp,
    /// By step.
    places: Vec<Location>,
}

/// What a file says about the slice's size: `weight`, or `steps` with what belongs to them.
#[derive(Debug)]
pub(super) enum Size {
    /// One share for good.
    Fixed(crate::units::Probability),
    /// A ramp.
    Ramp(Written),
}

/// Reads `weight`, or `steps`, `control`, `then` and `abort`.
pub(super) fn read_size(table: &mut Table<'_>) -> Option<Size> {
    let Some(steps) = table.get("steps") else {
        for key in ["abort", "control", "then"] {
            if let Some(value) = table.get(key) {
                value.error_help(
                    format!("`{key}` belongs to a canary with `steps`"),
                    "write `steps = [{ weight = 0.01, min_graded = 200 }]` instead of `weight`",
                );
            }
        }
        let weight = table.require("weight")?.probability()?;
        return Some(Size::Fixed(weight));
    };
    if let Some(weight) = table.get("weight") {
        weight.error_help(
            "a canary has one `weight` or it has `steps`, not both",
            "each step has a weight of its own",
        );
    }
    let control = table.get("control").map(|value| value.boolean());
    let control = control.unwrap_or(Some(true));
    let promotes = table.get("then").map(|value| {
        let index = value.one_of(
            "word for what comes after the last step",
            &["stay", "promote"],
        );
        index.map(|index| index == 1)
    });
    let tests = match table.get("abort") {
        Some(abort) => read_abort(&abort, control),
        None => {
            steps.error_help(
                format!(
                    "`{}` would widen the slice whatever its answers are",
                    steps.path()
                ),
                TESTS,
            );
            None
        }
    };
    let read = read_steps(&steps, control == Some(true));
    let (steps, places) = read?;
    let (sprt, against_control) = tests?;
    let ramp = Ramp {
        steps,
        control: control?,
        promotes: promotes.unwrap_or(Some(false))?,
        sprt,
        against_control,
    };
    warn_of_tests_that_cannot_speak(table, &ramp, &places);
    Some(Size::Ramp(Written { ramp, places }))
}

fn read_steps(value: &Value<'_>, control: bool) -> Option<(Vec<Step>, Vec<Location>)> {
    let items = value.list()?;
    if items.is_empty() || items.len() > STEPS_MAX {
        value.error(format!(
            "`{}` must hold 1 to {STEPS_MAX} steps, but holds {}",
            value.path(),
            items.len()
        ));
        return None;
    }
    let mut steps: Vec<Step> = Vec::new();
    let mut sound = true;
    for item in &items {
        let Some(step) = read_step(item, control, steps.last()) else {
            sound = false;
            continue;
        };
        steps.push(step);
    }
    let places = items.iter().map(Value::location).collect();
    sound.then_some((steps, places))
}

fn read_step(item: &Value<'_>, control: bool, before: Option<&Step>) -> Option<Step> {
    let mut table = item.table()?;
    let weight = table.require("weight");
    let min_graded = table
        .require("min_graded")
        .and_then(|value| value.integer_in(1, MIN_GRADED_MAX));
    let read = weight.and_then(|value| {
        let weight = value.probability()?;
        if weight.get() == 0.0 || weight.threshold() == 0 {
            value.error(format!(
                "`{}` is nobody: no answer would ever be graded, so this step never ends",
                value.path()
            ));
            return None;
        }
        if control && weight.get() > 0.5 {
            value.error_help(
                format!(
                    "`{}` is {} with a control of equal weight, and together they cannot be more than everybody",
                    value.path(),
                    weight.get()
                ),
                "end the ramp at 0.5 or below, or write `control = false`",
            );
            return None;
        }
        if let Some(before) = before
            && weight.threshold() <= before.below
        {
            value.error_help(
                format!(
                    "`{}` is {}, not above the {} of the step before it",
                    value.path(),
                    weight.get(),
                    before.weight
                ),
                "weights rise from step to step: whoever is in the slice stays in it",
            );
            return None;
        }
        Some(weight)
    });
    table.finish();
    let weight = read?;
    Some(Step {
        weight: weight.get(),
        below: weight.threshold(),
        min_graded: min_graded?,
    })
}

type Tests = (Option<Sprt>, Option<Sprt>);

fn read_abort(value: &Value<'_>, control: Option<bool>) -> Option<Tests> {
    let mut table = value.table()?;
    let sprt = table.get("sprt");
    let against = table.get("control");
    if sprt.is_none() && against.is_none() {
        value.error_help(format!("`{}` names no test", value.path()), TESTS);
        table.finish();
        return None;
    }
    if let (Some(value), Some(false)) = (&against, control) {
        value.error("`abort.control` compares with a control, and this canary has none");
    }
    table.finish();
    let sprt = sprt.map(|value| read_sprt(&value));
    let against = against.map(|value| read_against_control(&value));
    // A test that could not be read is not a test that nobody wanted.
    let readable = |test: &Option<Option<Sprt>>| !matches!(test, Some(None));
    (readable(&sprt) && readable(&against)).then(|| (sprt.flatten(), against.flatten()))
}

fn read_sprt(value: &Value<'_>) -> Option<Sprt> {
    let mut table = value.table()?;
    let mut share = |key: &str| {
        let value = table.require(key)?;
        Some((value.probability()?.get(), value))
    };
    let (p0, p1) = (share("p0"), share("p1"));
    let errors = read_errors(&mut table, value);
    table.finish();
    let ((p0, _), (p1, at), (alpha, beta)) = (p0?, p1?, errors?);
    if p0 >= p1 {
        at.error_help(
            format!("`{}` is {p1}, not above `p0`, which is {p0}", at.path()),
            "p0 is the share of wrong answers that is fine, p1 the one that is too high",
        );
        return None;
    }
    let test = Sprt::new(p0, p1, alpha, beta);
    if test.is_none() {
        value.error_help(
            format!("`{}` needs rates above 0 and below 1", value.path()),
            "at a rate of exactly 0 one wrong answer would decide, at 1 one right answer",
        );
    }
    test
}

fn read_against_control(value: &Value<'_>) -> Option<Sprt> {
    let mut table = value.table()?;
    let ratio = table.require("ratio").and_then(|at| {
        let ratio = at.number()?;
        // Within these bounds the two hypotheses differ by more than rounding.
        if (RATIO_MIN..=RATIO_MAX).contains(&ratio) {
            return Some(ratio);
        }
        at.error_help(
            format!(
                "`{}` must be above 1 (from {RATIO_MIN} to {RATIO_MAX}), but is {ratio}",
                at.path()
            ),
            "2.0 is twice as many wrong answers as the control's",
        );
        None
    });
    let errors = read_errors(&mut table, value);
    table.finish();
    let (ratio, (alpha, beta)) = (ratio?, errors?);
    // The slice's share of the wrong answers: one half, or ratio/(1 + ratio).
    Sprt::new(0.5, ratio / (1.0 + ratio), alpha, beta)
}

/// `alpha` and `beta`, if they are chances that leave something over.
fn read_errors(table: &mut Table<'_>, test: &Value<'_>) -> Option<(f64, f64)> {
    let mut chance = |key: &str, default: f64| match table.get(key) {
        None => Some(default),
        Some(value) => {
            let chance = value.probability()?.get();
            if chance == 0.0 {
                value.error(format!(
                    "`{}` must be above 0: a test that never errs never decides",
                    value.path()
                ));
                return None;
            }
            Some(chance)
        }
    };
    let (alpha, beta) = (chance("alpha", ALPHA), chance("beta", BETA));
    let (alpha, beta) = (alpha?, beta?);
    if alpha + beta >= 1.0 {
        test.error(format!(
            "`alpha` and `beta` of `{}` add up to {}; a test that errs so often is none",
            test.path(),
            alpha + beta
        ));
        return None;
    }
    Some((alpha, beta))
}

/// A step that ends before a test could have said "abort", whatever the answers were.
fn warn_of_tests_that_cannot_speak(table: &Table<'_>, ramp: &Ramp, places: &[Location]) {
    let tests = [
        ("abort.sprt", &ramp.sprt),
        ("abort.control", &ramp.against_control),
    ];
    for (name, test) in tests {
        let Some(test) = test else { continue };
        for (index, (step, place)) in ramp.steps.iter().zip(places).enumerate() {
            if test.least_hits_for_h1(step.min_graded).is_some() {
                continue;
            }
            let needed = (step.min_graded..)
                .take(1 << 20)
                .find(|n| test.least_hits_for_h1(*n).is_some());
            let mut warning = Diagnostic::warning(format!(
                "step {} ends after {} graded answers, and `{name}` cannot speak before then even if every one is wrong",
                index + 1,
                step.min_graded
            ))
            .at(place.clone());
            if let Some(needed) = needed {
                warning = warning.help(format!(
                    "it takes at least {needed} wrong answers to abort: raise `min_graded`, or set the two rates further apart"
                ));
            }
            table.context().report(warning);
        }
    }
}

impl Written {
    /// The first step that so many requests are not expected to complete, if there is one: with it all
    /// later ones are out of reach.
    ///
    /// A step takes `min_graded`/`weight` requests on average if every answer is graded, and more if not.
    pub(super) fn out_of_reach(&self, requests: u64) -> Option<Diagnostic> {
        let mut needed = 0.0;
        for (index, (step, place)) in self.ramp.steps.iter().zip(&self.places).enumerate() {
            let own = step.min_graded as f64 / step.weight;
            needed += own;
            if needed <= requests as f64 {
                continue;
            }
            let before = if index == 0 {
                String::new()
            } else {
                format!(", after about {:.0} for the steps before it", needed - own)
            };
            return Some(
                Diagnostic::warning(format!(
                    "step {} cannot be completed: {} graded answers at weight {} take about {own:.0} requests{before}, and there are {requests}",
                    index + 1,
                    step.min_graded,
                    step.weight
                ))
                .at(place.clone())
                .help("run more requests, raise the weight, or lower `min_graded`"),
            );
        }
        None
    }
}
