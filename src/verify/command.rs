//! Accepts what a program accepts: the answer on its stdin, exit code 0.
//!
//! Policies come from other people, so a program runs only where the caller allows it ([`Commands`]). There is
//! no shell. The program gets `PATH` and nothing else of the environment, where keys live. Its output is thrown
//! away. Its time is bounded; what it started itself and left behind is not ended with it.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::{Check, Checked, Commands, Kind, Reading, Verifier};
use crate::router::Verdict;
use crate::source::{Diagnostic, Table, Value};

/// Most seconds that a program may take.
const TIMEOUT_S_MAX: f64 = 300.0;
/// Seconds that it may take when nobody says.
const TIMEOUT_S: f64 = 5.0;
/// Longest time between two looks at whether it has ended.
const LOOK_MAX: Duration = Duration::from_millis(20);

pub(super) const KIND: Kind = Kind {
    name: "command",
    about: "Runs a program with the answer on stdin: exit code 0 accepts, any other rejects; one that cannot start, is ended \
            by a signal or takes longer than `timeout_s` could not look. For compilers, linters, test suites. \
            Needs --allow-commands. Fails with its own mistakes, and takes its time on every answer.",
    example: "verifier.command = { program = [\"grep\", \"-q\", \"^Answer: \"], timeout_s = 5, simulate = { passes = \"Answer: 42\", fails = \"I do not know.\", pass_if_correct = 0.99, pass_if_wrong = 0.5 } }",
    read,
};

#[derive(Debug)]
struct Program {
    /// The program, then its arguments.
    words: Vec<String>,
    timeout: Duration,
    /// Without it the program never runs.
    allowed: bool,
}

impl Check for Program {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn check(&self, answer: &str) -> Verdict {
        match self.exit_code(answer) {
            Some(0) => Verdict::Accept,
            Some(_) => Verdict::Reject,
            None => Verdict::Unavailable,
        }
    }
}

impl Program {
    /// The code it ended with by itself, in time.
    fn exit_code(&self, answer: &str) -> Option<i32> {
        let (program, arguments) = self.words.split_first().filter(|_| self.allowed)?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        let mut child = command.spawn().ok()?;
        let stdin = child.stdin.take();
        let text = answer.to_owned();
        // A pipe holds little, and the program need not read: who writes into it may wait for long.
        let writer = std::thread::Builder::new().spawn(move || {
            if let Some(mut stdin) = stdin {
                // A program that has seen enough closes its end.
                let _ = stdin.write_all(text.as_bytes());
            }
        });
        // Nobody waits for the writer: it ends when the last reader of the pipe is gone.
        let code = match writer {
            Ok(_) => wait(&mut child, self.timeout),
            Err(_) => None,
        };
        if code.is_none() {
            // If it has ended already there is nothing to kill. Waiting for it lets its entry go.
            let _ = child.kill();
            let _ = child.wait();
        }
        code
    }
}

/// The exit code, if the child ends by itself within `timeout`.
#[expect(
    clippy::disallowed_methods,
    reason = "how long a program takes is a matter of the clock; comparisons over tables never run one twice"
)]
fn wait(child: &mut Child, timeout: Duration) -> Option<i32> {
    let end = std::time::Instant::now() + timeout;
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait().ok()? {
            return status.code();
        }
        let left = end.checked_duration_since(std::time::Instant::now())?;
        std::thread::sleep(pause.min(left));
        pause = (pause * 2).min(LOOK_MAX);
    }
}

fn read(mut table: Table<'_>, reading: &Reading<'_>) -> Option<Verifier> {
    let words = table.require("program").and_then(|value| words(&value));
    let timeout_s = match table.get("timeout_s") {
        Some(value) => value.number_in(0.01, TIMEOUT_S_MAX),
        None => Some(TIMEOUT_S),
    };
    let program = words.zip(timeout_s).map(|(words, timeout_s)| {
        Box::new(Program {
            words,
            timeout: Duration::from_secs_f64(timeout_s),
            allowed: reading.commands == Commands::Allowed,
        }) as Box<dyn Check>
    });
    let checked = Checked::read_untried(&mut table, program);
    if reading.commands == Commands::Refused {
        table.context().report(
            Diagnostic::error("this verifier runs a program, and nobody allowed that")
                .at(table.location())
                .help("if you trust this file, say so with --allow-commands"),
        );
    }
    table.finish();
    Some(Verifier::Checked(checked?))
}

fn words(value: &Value<'_>) -> Option<Vec<String>> {
    let words: Vec<String> = value
        .strings()?
        .into_iter()
        .map(|word| word.value)
        .collect();
    if words.first().is_none_or(String::is_empty) {
        value.error_help(
            format!("`{}` must name a program", value.path()),
            "write a list: the program, then each argument, such as [\"./check.sh\", \"--strict\"]",
        );
        return None;
    }
    Some(words)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn verdict_in(timeout_s: f64, words: &[&str], answer: &str) -> Verdict {
        Program {
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            timeout: Duration::from_secs_f64(timeout_s),
            allowed: true,
        }
        .check(answer)
    }

    fn verdict(words: &[&str], answer: &str) -> Verdict {
        verdict_in(60.0, words, answer)
    }

    #[test]
    fn the_exit_code_is_the_verdict() {
        assert_eq!(verdict(&["true"], "x"), Verdict::Accept);
        assert_eq!(verdict(&["false"], "x"), Verdict::Reject);
        assert_eq!(verdict(&["sh", "-c", "exit 7"], "x"), Verdict::Reject);
        assert_eq!(
            verdict(&["grep", "-q", "needle"], "a needle"),
            Verdict::Accept
        );
        assert_eq!(verdict(&["grep", "-q", "needle"], "hay"), Verdict::Reject);
        // There is no shell that would read this.
        assert_eq!(
            verdict(&["test", "$HOME", "=", "$HOME"], ""),
            Verdict::Accept
        );
        assert_eq!(verdict(&["true; false"], ""), Verdict::Unavailable);
    }

    #[test]
    fn a_program_that_cannot_look_gives_no_verdict() {
        assert_eq!(
            verdict(&["/there/is/no/such/program"], ""),
            Verdict::Unavailable
        );
        assert_eq!(verdict(&["nul\0byte"], ""), Verdict::Unavailable);
        assert_eq!(
            verdict(&["sh", "-c", "kill -KILL $$"], ""),
            Verdict::Unavailable
        );
        assert_eq!(
            verdict_in(0.05, &["sleep", "600"], ""),
            Verdict::Unavailable
        );
        // It writes for ever into a stdout that nobody reads.
        assert_eq!(verdict_in(0.05, &["yes"], ""), Verdict::Unavailable);
    }

    #[test]
    fn long_answers_arrive_whole_and_nobody_has_to_read_them() {
        let long = "0123456789".repeat(1_000_000);
        let count = ["sh", "-c", "test $(wc -c) -eq 10000000"];
        assert_eq!(verdict(&count, &long), Verdict::Accept);
        assert_eq!(verdict(&["true"], &long), Verdict::Accept);
        assert_eq!(verdict(&["head", "-c", "3"], &long), Verdict::Accept);
        assert_eq!(verdict(&["cat"], &long), Verdict::Accept);
        // It closes nothing and reads nothing.
        assert_eq!(
            verdict_in(0.05, &["sleep", "600"], &long),
            Verdict::Unavailable
        );
    }

    #[test]
    fn nothing_of_the_environment_but_the_path_gets_through() {
        // The names that `env` shows, less what a shell sets for itself.
        let script =
            "test -z \"$(env | grep -v -e ^PATH= -e ^PWD= -e ^SHLVL= -e ^_= -e ^OLDPWD=)\"";
        assert_eq!(verdict(&["/bin/sh", "-c", script], ""), Verdict::Accept);
        // The test itself runs with more than that.
        assert!(std::env::vars_os().count() > 2);
        assert_eq!(
            verdict(&["/bin/sh", "-c", "test -n \"$PATH\""], ""),
            Verdict::Accept
        );
    }

    #[test]
    fn what_was_not_allowed_never_runs() {
        let program = Program {
            words: vec!["true".to_owned()],
            timeout: Duration::from_secs(60),
            allowed: false,
        };
        assert_eq!(program.check(""), Verdict::Unavailable);
    }
}
