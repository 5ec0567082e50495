//! What a run that was interrupted has done, so that another one can go on from there.
//!
//! It holds sums, not requests: those of the replicates that are finished, and of the chunks that are finished
//! of the replicate in progress, in integers. A run that goes on from a checkpoint comes to the results of one
//! that was never interrupted, to the last digit. Where requests hang on earlier ones (policies that learn while
//! they run, stages, timelines) a replicate that was in progress begins anew.
//!
//! A checkpoint belongs to one experiment and one version of the program; going on from another one's is refused,
//! and so is a file that was changed.

use std::fmt::Write as _;

use sha2::Digest as _;

use super::blocks::Blocks;
use super::clusters::Clusters;
use super::contestants;
use super::episode::Sums;
use super::segments::Gathered;
use super::stage::Trace;
use super::timeline::Passage;
use super::{Experiment, Results};
use crate::policy::Rollout;
use crate::stats::{ClusterPair, PairTally, Tally, UnitSums};

/// Name and version of the file's shape.
const SCHEMA: &str = "routelab.checkpoint/1";

/// What a run had done when it was interrupted.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub struct Checkpoint {
    identity: Vec<(String, String)>,
    /// Replicates that are finished.
    pub(super) done: u32,
    /// Requests of the longest of them, see [`Results::requests`].
    pub(super) requests: u64,
    /// By contestant.
    measured: Vec<Measured>,
    pub(super) blocks: Blocks,
    pub(super) clusters: Option<Clusters>,
    pub(super) segments: Gathered,
    /// The replicate in progress.
    pub(super) part: Option<Part>,
}

/// What one contestant's finished replicates came to.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Measured {
    tallies: Vec<Tally>,
    pairs: Vec<Vec<PairTally>>,
    clusters: Vec<Vec<ClusterPair>>,
    traces: Vec<Trace>,
    rollouts: Vec<Rollout>,
    passages: Vec<Passage>,
    calm: Vec<Passage>,
    calm_tallies: Vec<Tally>,
}

/// A replicate of which some chunks are finished.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Part {
    /// The sums of the finished chunks of all blocks.
    pub(super) sums: Sums,
    pub(super) blocks: Vec<PartBlock>,
}

/// A block of which some chunks are finished.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct PartBlock {
    /// By contestant.
    pub(super) units: Vec<UnitSums>,
    /// Which chunks, by their place in the block, in no order.
    pub(super) chunks: Vec<u64>,
}

impl Checkpoint {
    /// Takes what was measured out of the results of a run that is given up.
    pub(super) fn take(
        identity: Vec<(String, String)>,
        done: u32,
        results: &mut Results,
        blocks: Blocks,
        (clusters, segments): (Option<Clusters>, Gathered),
        part: Option<Part>,
    ) -> Self {
        let contestants = results.contestants.iter_mut().map(|one| Measured {
            tallies: std::mem::take(&mut one.tallies),
            pairs: std::mem::take(&mut one.pairs),
            clusters: std::mem::take(&mut one.clusters),
            traces: std::mem::take(&mut one.traces),
            rollouts: std::mem::take(&mut one.rollouts),
            passages: std::mem::take(&mut one.passages),
            calm: std::mem::take(&mut one.calm),
            calm_tallies: std::mem::take(&mut one.calm_tallies),
        });
        Self {
            identity,
            done,
            requests: results.requests,
            measured: contestants.collect(),
            blocks,
            clusters,
            segments,
            part,
        }
    }

    /// Puts what was measured back into fresh results; or says why it does not fit.
    pub(super) fn give(&mut self, results: &mut Results) -> Result<(), String> {
        let (done, pairs) = (self.done as usize, results.baselines.len());
        let fits = |one: &Measured| {
            one.tallies.len() == done
                && one.pairs.len() == pairs
                && one.pairs.iter().all(|of| of.len() == done)
        };
        let contestants = results.contestants.len();
        if self.measured.len() != contestants
            || self.blocks.of.len() != contestants
            || u64::from(self.done) > results.replicates
            || !self.measured.iter().all(fits)
        {
            return Err("the checkpoint does not hold what it must".to_owned());
        }
        let measured = std::mem::take(&mut self.measured);
        for (contestant, one) in results.contestants.iter_mut().zip(measured) {
            contestant.tallies = one.tallies;
            contestant.pairs = one.pairs;
            contestant.clusters = one.clusters;
            contestant.traces = one.traces;
            contestant.rollouts = one.rollouts;
            contestant.passages = one.passages;
            contestant.calm = one.calm;
            contestant.calm_tallies = one.calm_tallies;
        }
        Ok(())
    }

    /// What tells this experiment from the one that the checkpoint is of, if it is another one.
    pub(super) fn differs(&self, identity: &[(String, String)]) -> Option<String> {
        let mut differences = Vec::new();
        for (what, here) in identity {
            let there = self.identity.iter().find(|(known, _)| known == what);
            match there {
                Some((_, there)) if there == here => {}
                Some((_, there)) => {
                    differences.push(format!("{what} ({there} there, {here} here)"))
                }
                None => differences.push(what.clone()),
            }
        }
        (!differences.is_empty()).then(|| differences.join(", "))
    }

    /// Replicates that are finished, and chunks of the one in progress.
    #[must_use]
    pub fn progress(&self) -> (u32, usize) {
        let blocks = self.part.iter().flat_map(|part| &part.blocks);
        (self.done, blocks.map(|block| block.chunks.len()).sum())
    }

    /// The checkpoint as a file: two lines of JSON, of which the first has a digest of the second.
    #[must_use]
    pub fn to_text(&self) -> String {
        // Integers, strings and lists: there is nothing that could fail.
        let body = serde_json::to_string(self).unwrap_or_default();
        let head = serde_json::json!({ "schema": SCHEMA, "sha256": sha256(body.as_bytes()) });
        format!("{head}\n{body}\n")
    }

    /// Reads what [`Checkpoint::to_text`] wrote.
    ///
    /// # Errors
    ///
    /// Why it is no checkpoint of this version, or not a whole one.
    pub fn from_text(text: &str) -> Result<Self, String> {
        let again = "run the command again without it";
        let (head, body) = text
            .split_once('\n')
            .ok_or_else(|| format!("this is no checkpoint; {again}"))?;
        let head: serde_json::Value =
            serde_json::from_str(head).map_err(|_| format!("this is no checkpoint; {again}"))?;
        if head["schema"] != SCHEMA {
            return Err(format!(
                "this is no checkpoint that this version can read (`{SCHEMA}`); {again}"
            ));
        }
        let body = body.trim_end_matches('\n');
        if head["sha256"].as_str() != Some(&sha256(body.as_bytes())) {
            return Err(format!(
                "the checkpoint was cut short or changed: its digest is another one; {again}"
            ));
        }
        serde_json::from_str(body)
            .map_err(|error| format!("the checkpoint cannot be read ({error}); {again}"))
    }
}

/// What an experiment is, as far as its results hang on it. `inputs` is a digest of the files behind it.
pub(super) fn identity(
    experiment: &Experiment<'_>,
    blocks: u64,
    inputs: &str,
) -> Vec<(String, String)> {
    let workload = experiment.workload;
    let names = contestants::names(experiment);
    let stage = |what: &dyn std::fmt::Debug| format!("{:.16}", digest_of(what));
    let parts = [
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("inputs", inputs.to_owned()),
        ("seed", experiment.seed.to_string()),
        ("requests", experiment.run_length().to_string()),
        ("replicates", experiment.replicates.max(1).to_string()),
        ("blocks", blocks.to_string()),
        ("baseline", experiment.baseline.unwrap_or("").to_owned()),
        (
            "whether tasks and tenants are told apart, as --report, csv, json and html do",
            experiment.slices.to_string(),
        ),
        (
            "cluster",
            experiment
                .cluster
                .map_or("", crate::policy::Unit::name)
                .to_owned(),
        ),
        (
            "contestants",
            stage(&(names, experiment.catalogue.names().collect::<Vec<_>>())),
        ),
        (
            "workload",
            stage(&(
                &workload.name,
                workload.len(),
                &workload.routes,
                &workload.tasks,
                &workload.tenants,
            )),
        ),
        (
            "stage",
            experiment.stage.map_or_else(String::new, |one| stage(one)),
        ),
        (
            "timeline",
            experiment
                .timed()
                .map_or_else(String::new, |one| stage(one)),
        ),
    ];
    parts.map(|(what, value)| (what.to_owned(), value)).into()
}

fn sha256(bytes: &[u8]) -> String {
    hex(sha2::Sha256::digest(bytes))
}

fn hex(bytes: impl IntoIterator<Item = u8>) -> String {
    let mut text = String::new();
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// SHA-256 of how something is written for debugging, which is the same within a version.
fn digest_of(what: &dyn std::fmt::Debug) -> String {
    struct Hasher(sha2::Sha256);
    impl std::fmt::Write for Hasher {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            self.0.update(text.as_bytes());
            Ok(())
        }
    }
    let mut hasher = Hasher(sha2::Sha256::new());
    let _ = write!(hasher, "{what:?}");
    hex(hasher.0.finalize())
}

/// Maps whose keys are no strings, as lists of pairs.
pub(super) mod as_pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(in crate::sim) fn serialize<K: Serialize, V: Serialize, S: Serializer>(
        map: &BTreeMap<K, V>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(map)
    }

    pub(in crate::sim) fn deserialize<'de, K, V, D>(
        deserializer: D,
    ) -> Result<BTreeMap<K, V>, D::Error>
    where
        K: Deserialize<'de> + Ord,
        V: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Ok(Vec::<(K, V)>::deserialize(deserializer)?
            .into_iter()
            .collect())
    }
}
