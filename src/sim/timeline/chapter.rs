//! Requests in the order of their arrival, a few thousand at a time: what all contestants read.

use std::collections::VecDeque;

use crate::catalogue::Requirement;
use crate::policy::Asks;
use crate::router::RouteId;
use crate::sim::episode::World;
use crate::standin::outcome::{NOT_IN_WORLD, Outcomes};
use crate::timeline::{Arriving, Attempted, Drifts, Timeline};
use crate::units::{Instant, Tokens};
use crate::workload::{Batch, DrawKey};

/// Requests of one chapter.
pub(super) const CHAPTER: usize = 4_096;

/// Some consecutive requests, when they arrive, and the truth about them.
#[derive(Default)]
pub(super) struct Chapter {
    /// Number of the first.
    pub(super) first: u64,
    /// When each arrives.
    pub(super) at: Vec<Instant>,
    pub(super) batch: Batch,
    outcomes: Outcomes,
    /// The truth of a calm day, where quality changes on others.
    calm_outcomes: Option<Outcomes>,
    /// By request: what its requirement is called, see [`Classes`].
    pub(super) class: Vec<u16>,
    /// By request, if the workload has more than one fold.
    pub(super) folds: Vec<u8>,
    /// Requests whose prompt is of unknown length.
    pub(super) unknown_need: u64,
    requirement: Vec<Requirement>,
    key: u64,
    tenants: Vec<u16>,
}

impl Chapter {
    pub(super) fn len(&self) -> usize {
        self.at.len()
    }

    /// The truth about the requests, as declared or on a calm day.
    #[inline(always)]
    pub(super) fn outcomes(&self, is_calm: bool) -> &Outcomes {
        match &self.calm_outcomes {
            Some(calm) if is_calm => calm,
            _ => &self.outcomes,
        }
    }

    /// What the i-th request needs.
    #[inline(always)]
    pub(super) fn requirement_of(&self, i: usize) -> Requirement {
        match self.requirement.as_slice() {
            [everybody] => *everybody,
            each => each[i],
        }
    }

    /// What policies may know.
    pub(super) fn asks(&self) -> Asks<'_> {
        World::view(&self.batch, &self.requirement, self.key)
    }
}

/// The distinct requirements of a world.
pub(super) struct Classes {
    distinct: Vec<Requirement>,
}

impl Classes {
    pub(super) fn new(world: &World<'_>) -> Self {
        let mut distinct = Vec::new();
        for requirement in &world.requirements {
            if !distinct.contains(requirement) {
                distinct.push(*requirement);
            }
        }
        Self { distinct }
    }

    fn of(&self, requirement: Requirement) -> u16 {
        let found = self.distinct.iter().position(|one| *one == requirement);
        found.unwrap_or(0) as u16
    }

    /// What people call them: the regions that are allowed.
    pub(super) fn names(&self, world: &World<'_>) -> Vec<String> {
        let name = |requirement: &Requirement| {
            let all = &world.catalogue.regions;
            let allowed: Vec<&str> = all
                .iter()
                .enumerate()
                .filter(|(bit, _)| requirement.residency.0 >> bit & 1 == 1)
                .map(|(_, name)| name.as_str())
                .collect();
            let mut name = if allowed.is_empty() && !all.is_empty() {
                "nowhere".to_owned()
            } else if allowed.is_empty() {
                "anywhere".to_owned()
            } else {
                allowed.join(", ")
            };
            if requirement.local_only {
                name.push_str(" (own machines)");
            }
            name
        };
        self.distinct.iter().map(name).collect()
    }
}

/// Reads chapters.
pub(super) struct Reader<'a> {
    pub(super) timeline: &'a Timeline,
    pub(super) world: &'a World<'a>,
    pub(super) classes: &'a Classes,
    pub(super) drifts: Drifts,
    /// By route: a key of its name.
    pub(super) route_keys: &'a [u64],
    pub(super) arriving: Arriving<'a>,
    pub(super) key: DrawKey,
    /// Requests that are still to come, at most.
    pub(super) left: u64,
    pub(super) next: u64,
    /// Room of chapters that are over.
    pub(super) spare: Vec<Chapter>,
}

impl Reader<'_> {
    /// The next chapter; `None` when nobody comes any more.
    pub(super) fn read(&mut self) -> Option<Chapter> {
        let mut chapter = self.spare.pop().unwrap_or_default();
        chapter.first = self.next;
        chapter.at.clear();
        chapter.tenants.clear();
        let most = self.left.min(CHAPTER as u64) as usize;
        let end = self
            .timeline
            .duration
            .map_or(Instant(u64::MAX), |length| Instant::ZERO.after(length));
        for arrival in self.arriving.by_ref().take(most) {
            if arrival.at >= end {
                self.left = 0;
                break;
            }
            chapter.at.push(arrival.at);
            chapter.tenants.push(arrival.tenant);
        }
        let len = chapter.at.len();
        self.left = if len < most {
            0
        } else {
            self.left.saturating_sub(len as u64)
        };
        if len == 0 {
            return None;
        }
        self.next += len as u64;
        let tenants = self
            .timeline
            .arrivals
            .has_tenants()
            .then_some(chapter.tenants.as_slice());
        let workload = self.world.workload;
        workload.fill_for(self.key, chapter.first, len, tenants, &mut chapter.batch);
        // Recorded rows may be fewer.
        let len = chapter.batch.len;
        chapter.at.truncate(len);
        if len == 0 {
            return None;
        }
        chapter.key = self.world.key_of(self.key.replicate);
        self.world
            .requirements_of(&chapter.batch, &mut chapter.requirement);
        chapter.class.clear();
        match chapter.requirement.as_slice() {
            [everybody] => chapter.class.resize(len, self.classes.of(*everybody)),
            each => {
                let classes = each.iter().map(|one| self.classes.of(*one));
                chapter.class.extend(classes);
            }
        }
        chapter.folds.clear();
        if workload.folds() > 1 {
            let folds = (0..len as u64).map(|i| workload.fold(chapter.first + i));
            chapter.folds.extend(folds);
        }
        let unknown = chapter.batch.input_tokens[..len].iter();
        chapter.unknown_need = unknown.filter(|tokens| **tokens == Tokens::UNKNOWN).count() as u64;
        if self.timeline.drifts.is_empty() {
            chapter.calm_outcomes = None;
        } else {
            let calm = chapter.calm_outcomes.get_or_insert_default();
            calm.fill(&chapter.batch, &self.world.world, &self.world.prices);
            self.drift(&mut chapter);
        }
        chapter
            .outcomes
            .fill(&chapter.batch, &self.world.world, &self.world.prices);
        Some(chapter)
    }

    /// Lets the quality of routes change, by when requests arrive.
    fn drift(&self, chapter: &mut Chapter) {
        for (index, column) in self.world.world.iter().enumerate() {
            if *column == NOT_IN_WORLD {
                continue;
            }
            let (route, key) = (RouteId(index as u16), self.route_keys[index]);
            let grades = &mut chapter.batch.grade[usize::from(*column)];
            let words = &chapter.batch.policy_word;
            for ((grade, at), word) in grades.iter_mut().zip(&chapter.at).zip(words) {
                // The same for every attempt: a request that is sent again is the same question.
                let bits = Attempted::bits(*word, key, 0);
                *grade = self.drifts.grade(route, *at, bits, *grade);
            }
        }
    }
}

/// Chapters in which somebody still has a request in progress.
#[derive(Default)]
pub(super) struct Window {
    /// Number of the first chapter that is kept.
    base: u64,
    chapters: VecDeque<Chapter>,
}

impl Window {
    pub(super) fn push(&mut self, chapter: Chapter) {
        self.chapters.push_back(chapter);
    }

    /// Number of the first chapter.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// The first chapter.
    pub(super) fn front(&self) -> Option<&Chapter> {
        self.chapters.front()
    }

    /// The last chapter.
    pub(super) fn back(&self) -> Option<&Chapter> {
        self.chapters.back()
    }

    pub(super) fn pop(&mut self) -> Option<Chapter> {
        self.base += 1;
        self.chapters.pop_front()
    }

    /// The chapter of a request, and its place there.
    #[inline(always)]
    pub(super) fn of(&self, number: u64) -> (&Chapter, usize) {
        let chapter = number / CHAPTER as u64 - self.base;
        (
            &self.chapters[chapter as usize],
            (number % CHAPTER as u64) as usize,
        )
    }
}
