//! Puts streamed fragments of tool calls together.
//!
//! A fragment should carry an index, and the first of a call its id and name. Real servers leave out
//! any of them, send the same index for two calls, or repeat id and name on every fragment. The rules
//! below find the call a fragment belongs to; each comes from a reported fault of some client.

use serde::de::IgnoredAny;

use super::error::Error;
use super::stream::too_large;
use super::types::{Echo, StreamEvent};

/// Most tool calls in one answer; a server that sends more is broken.
pub const TOOL_CALLS_MAX: usize = 1_024;

/// Refuses more than [`TOOL_CALLS_MAX`] calls in a whole answer.
pub(super) fn check_number(calls: usize) -> Result<(), Error> {
    if calls > TOOL_CALLS_MAX {
        return Err(too_large("number of tool calls", TOOL_CALLS_MAX));
    }
    Ok(())
}

/// A piece of a call. Empty texts count as missing.
#[derive(Clone, Debug, Default)]
pub(super) struct Fragment {
    /// The server's number of the call.
    pub index: Option<u64>,
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// A piece of the arguments.
    pub arguments: String,
    /// What goes back with it.
    pub echo: Option<Echo>,
}

#[derive(Clone, Debug)]
struct Open {
    index: Option<u64>,
    /// The server's id; empty if it sent none.
    id: String,
    name: String,
    arguments: String,
    echo: Option<Echo>,
    started: bool,
}

impl Open {
    /// The arguments so far are a whole JSON object, so that more of them would break it.
    fn is_whole(&self) -> bool {
        self.arguments.trim_end().ends_with('}')
            && serde_json::from_str::<IgnoredAny>(&self.arguments).is_ok()
    }
}

/// The calls of one answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls {
    open: Vec<Open>,
}

/// More than [`TOOL_CALLS_MAX`] calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooMany;

impl Calls {
    /// Whether there is any call.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// How many calls there are.
    pub(super) fn len(&self) -> u64 {
        self.open.len() as u64
    }

    /// Adds a fragment and says what is new. `salt` tells answers apart where ids are made here.
    pub(super) fn add(
        &mut self,
        fragment: Fragment,
        salt: &str,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), TooMany> {
        let number = match self.find(&fragment) {
            Some(number) => number,
            None => {
                if self.open.len() == TOOL_CALLS_MAX {
                    return Err(TooMany);
                }
                self.open.push(Open {
                    index: fragment.index,
                    id: fragment.id,
                    name: String::new(),
                    arguments: String::new(),
                    echo: None,
                    started: false,
                });
                self.open.len() - 1
            }
        };
        let call = &mut self.open[number];
        if !call.started {
            if call.name.is_empty() {
                call.name = fragment.name;
            }
            if fragment.echo.is_some() {
                call.echo = fragment.echo;
            }
            if !call.name.is_empty() {
                start(call, number, salt, out);
            }
        }
        if !fragment.arguments.is_empty() {
            call.arguments.push_str(&fragment.arguments);
            if call.started {
                out.push(StreamEvent::ToolArgs {
                    index: number,
                    text: fragment.arguments,
                });
            }
        }
        Ok(())
    }

    /// The answer is complete: calls that never got a name are handed out without one.
    pub(super) fn finish(&mut self, salt: &str, out: &mut Vec<StreamEvent>) {
        for (number, call) in self.open.iter_mut().enumerate() {
            if !call.started {
                start(call, number, salt, out);
            }
        }
    }

    fn find(&self, fragment: &Fragment) -> Option<usize> {
        let last = |wanted: &dyn Fn(&Open) -> bool| self.open.iter().rposition(wanted);
        let at_index = match fragment.index {
            Some(index) => last(&|call| call.index == Some(index)),
            // Without an index a fragment belongs to the call before it (langchain#34654).
            None => self.open.len().checked_sub(1),
        };
        if !fragment.id.is_empty() {
            // An id that is known decides, at the same index or where an index is missing.
            let same = last(&|call| {
                call.id == fragment.id
                    && (call.index == fragment.index
                        || call.index.is_none()
                        || fragment.index.is_none())
            });
            if same.is_some() {
                return same;
            }
            let call = &self.open[at_index?];
            // A new id with a name opens a call, whatever index it claims (hermes-agent#62940). A new
            // id without a name is one of the servers that number every fragment afresh, if it has an
            // index; without one, it opens a call.
            let opens = if fragment.index.is_some() {
                !fragment.name.is_empty() && !call.name.is_empty()
            } else {
                !call.name.is_empty() || !call.id.is_empty()
            };
            return if opens { None } else { at_index };
        }
        let call = &self.open[at_index?];
        // No id: another name after whole arguments is another call.
        let opens = !fragment.name.is_empty() && !call.name.is_empty() && call.is_whole();
        if opens { None } else { at_index }
    }
}

fn start(call: &mut Open, number: usize, salt: &str, out: &mut Vec<StreamEvent>) {
    call.started = true;
    let id = if call.id.is_empty() {
        made_up_id(salt, number, &call.name)
    } else {
        call.id.clone()
    };
    out.push(StreamEvent::ToolStart {
        index: number,
        id,
        name: call.name.clone(),
        echo: call.echo.take(),
    });
    if !call.arguments.is_empty() {
        out.push(StreamEvent::ToolArgs {
            index: number,
            text: call.arguments.clone(),
        });
    }
}

/// An id for a call whose server sent none: the same for the same answer, number and name, and
/// different from turn to turn as long as `salt`, the id of the answer, is. FNV-1a (Fowler, Noll and
/// Vo), 64 bits.
pub(super) fn made_up_id(salt: &str, number: usize, name: &str) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in salt.bytes().chain([0]).chain(name.bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    format!("call_{hash:016x}_{number}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::types::{Finish, Response, Stop, Usage, collect};

    fn fragment(index: Option<u64>, id: &str, name: &str, arguments: &str) -> Fragment {
        Fragment {
            index,
            id: id.into(),
            name: name.into(),
            arguments: arguments.into(),
            echo: None,
        }
    }

    fn assemble(fragments: Vec<Fragment>) -> Vec<(String, String, String)> {
        let mut calls = Calls::default();
        let mut events = Vec::new();
        for fragment in fragments {
            calls.add(fragment, "salt", &mut events).unwrap();
        }
        calls.finish("salt", &mut events);
        events.push(StreamEvent::Done(Finish {
            stop: Stop::ToolCalls,
            raw_stop: None,
            usage: Usage::UNKNOWN,
            request_id: None,
            model: None,
            echo: None,
            warnings: Vec::new(),
        }));
        let response: Response = collect(events).unwrap();
        response
            .tool_calls
            .into_iter()
            .map(|call| (call.id, call.name, call.raw))
            .collect()
    }

    fn calls(expected: &[(&str, &str, &str)]) -> Vec<(String, String, String)> {
        expected
            .iter()
            .map(|&(id, name, raw)| (id.to_owned(), name.to_owned(), raw.to_owned()))
            .collect()
    }

    #[test]
    fn r21_interleaved_fragments_go_to_their_calls() {
        let (a, b) = (Some(0), Some(1));
        assert_eq!(
            assemble(vec![
                fragment(a, "x", "f", ""),
                fragment(b, "y", "g", ""),
                fragment(a, "", "", "{\"k\":"),
                fragment(b, "", "", "{\"l\":"),
                fragment(a, "", "", "1}"),
                fragment(b, "", "", "2}"),
            ]),
            calls(&[("x", "f", "{\"k\":1}"), ("y", "g", "{\"l\":2}")])
        );
    }

    #[test]
    fn r21_without_an_index_an_id_opens_and_the_rest_continues() {
        assert_eq!(
            assemble(vec![
                fragment(None, "x", "f", "{\"k\":"),
                fragment(None, "", "", "1}"),
                fragment(None, "y", "g", ""),
                fragment(None, "", "", "{}"),
            ]),
            calls(&[("x", "f", "{\"k\":1}"), ("y", "g", "{}")])
        );
        // A mix of both does not crash and loses nothing.
        let mixed = assemble(vec![
            fragment(Some(0), "x", "f", "{"),
            fragment(None, "", "", "}"),
            fragment(Some(7), "", "g", "{}"),
            fragment(None, "x", "", ""),
        ]);
        assert_eq!(mixed.len(), 2);
        assert_eq!(mixed[0].2, "{}");
    }

    #[test]
    fn repeated_names_and_fresh_ids_do_not_open_calls() {
        assert_eq!(
            assemble(vec![
                fragment(Some(0), "x", "f", "{\"k\""),
                fragment(Some(0), "x", "f", ":1"),
                fragment(Some(0), "z", "", "}"),
            ]),
            calls(&[("x", "f", "{\"k\":1}")])
        );
    }

    #[test]
    fn a_name_may_come_after_the_arguments_began() {
        assert_eq!(
            assemble(vec![
                fragment(Some(0), "x", "", "{"),
                fragment(Some(0), "", "f", ""),
                fragment(Some(0), "", "", "}"),
            ]),
            calls(&[("x", "f", "{}")])
        );
        assert_eq!(
            assemble(vec![fragment(Some(0), "x", "", "{}")]),
            calls(&[("x", "", "{}")])
        );
    }

    #[test]
    fn made_up_ids_differ_between_calls_and_between_answers() {
        let one = made_up_id("r1", 0, "f");
        assert_eq!(one, made_up_id("r1", 0, "f"));
        assert_ne!(one, made_up_id("r1", 1, "f"));
        assert_ne!(one, made_up_id("r2", 0, "f"));
    }

    #[test]
    fn calls_without_end_are_refused() {
        let mut calls = Calls::default();
        let mut events = Vec::new();
        let results: Vec<_> = (0..=TOOL_CALLS_MAX as u64)
            .map(|n| calls.add(fragment(Some(n), "", "f", ""), "", &mut events))
            .collect();
        assert_eq!(results.iter().filter(|result| result.is_err()).count(), 1);
    }
}
