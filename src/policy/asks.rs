//! What policies may know about many requests, column by column.

use super::Ask;
use crate::catalogue::Requirement;
use crate::router::Need;
use crate::units::{Instant, Tokens};

/// The [`Ask`]s of consecutive requests, as columns of equal length. A policy that looks at one column
/// reads one column.
#[derive(Clone, Copy, Debug)]
pub struct Asks<'a> {
    /// See [`Ask::task`].
    pub task: &'a [u16],
    /// See [`Ask::tenant`].
    pub tenant: &'a [u16],
    /// See [`Ask::language`].
    pub language: &'a [u16],
    /// See [`Ask::user`].
    pub user: &'a [u64],
    /// See [`Ask::session`].
    pub session: &'a [u64],
    /// See [`Ask::prompt_chars`].
    pub prompt_chars: &'a [Tokens],
    /// See [`Ask::difficulty_hint`].
    pub difficulty_hint: &'a [f64],
    /// See [`Need::input_tokens`].
    pub input_tokens: &'a [Tokens],
    /// See [`Need::output_cap`].
    pub output_cap: &'a [Tokens],
    /// See [`Need::tools`].
    pub tools: &'a [bool],
    /// Where each request's data may go; one for all if they all have the same.
    pub requirement: &'a [Requirement],
    /// See [`Ask::word`].
    pub word: &'a [u64],
    /// See [`Ask::key`].
    pub key: u64,
}

impl Asks<'_> {
    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.task.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.task.is_empty()
    }

    /// What may be known about the i-th.
    #[must_use]
    #[inline(always)]
    pub fn get(&self, i: usize) -> Ask {
        Ask {
            task: self.task[i],
            tenant: self.tenant[i],
            language: self.language[i],
            user: self.user[i],
            session: self.session[i],
            prompt_chars: self.prompt_chars[i],
            difficulty_hint: self.difficulty_hint[i],
            need: self.need(i),
            last_route: None,
            now: Instant::ZERO,
            word: self.word[i],
            key: self.key,
        }
    }

    /// What the i-th needs from a route.
    #[must_use]
    #[inline(always)]
    pub fn need(&self, i: usize) -> Need {
        let requirement = match self.requirement {
            [everybody] => everybody,
            each => &each[i],
        };
        Need {
            input_tokens: self.input_tokens[i],
            output_cap: self.output_cap[i],
            tools: self.tools[i],
            residency: requirement.residency,
            local_only: requirement.local_only,
            account: None,
            deadline: None,
        }
    }
}
