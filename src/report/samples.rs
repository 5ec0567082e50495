//! Single requests with what every policy did with them, for whoever wants to see what numbers are made of.

use crate::sim;

/// One request and what became of it under each policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Its id.
    pub request: String,
    /// Its task.
    pub task: String,
    /// Whose it is, if it says so.
    pub tenant: Option<String>,
    /// One entry for each policy under test, in their order.
    pub stories: Vec<Story>,
}

/// What one policy did with a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Story {
    /// Name of the policy.
    pub policy: String,
    /// Whose answer was served; `None` if nobody's.
    pub route: Option<String>,
    /// The grade of what was served, from 0 to 1; `None` if nobody graded it.
    pub grade: Option<f64>,
    /// What it cost, in USD; `None` if that is not known.
    pub cost_usd: Option<f64>,
    /// Calls made for it.
    pub calls: u32,
    /// What happened, step by step, as `explain` prints it; text from outside is in it as it is.
    pub lines: Vec<String>,
}

impl Sample {
    /// A sample as the simulation gives it.
    pub(super) fn of(sample: &sim::Sample) -> Self {
        let stories = sample.stories.iter().map(|story| Story {
            policy: story.policy.clone(),
            route: story.route.clone(),
            grade: story.grade.map(|millionths| f64::from(millionths) / 1e6),
            cost_usd: story.cost.map(|cost| cost as f64 / 1e12),
            calls: u32::from(story.calls),
            lines: story.lines.clone(),
        });
        Self {
            request: sample.request.clone(),
            task: sample.task.clone(),
            tenant: sample.tenant.clone(),
            stories: stories.collect(),
        }
    }
}
