//! `call`: one question through a policy, to whoever the catalogue names.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use comfy_table::{Cell, CellAlignment, Table, presets};
use serde_json::json;
use tokio::sync::Notify;

use super::Exit;
use super::inputs::{Permission, ROUTES, Reader};
use super::screen::{Screen, unwritable};
use crate::live::{
    AnswerStream, CallContext, CallError, Client, Hook, JsonLines, Options, Spend, Tracing,
};
use crate::source::{Diagnostic, Diagnostics};
use crate::traffic::{Attempt, Origin, Outcome};
use crate::wire::{Collector, Message, OUTPUT_CAP_DEFAULT, Request, Response, StreamEvent};

/// The schema of what `--json` prints.
const SCHEMA: &str = "routelab.call/1";

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// What to ask.
    question: String,
    /// The policy that decides who is asked.
    #[arg(short, long, value_name = "FILE")]
    policy: PathBuf,
    /// The route catalogue [default: policies/routes.toml].
    #[arg(long, value_name = "FILE")]
    routes: Option<PathBuf>,
    /// What the question is about, as the policy's tasks are called.
    #[arg(long, value_name = "NAME")]
    task: Option<String>,
    /// On whose behalf; the catalogue may restrict where their data goes.
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// Who asks; canaries keep a user on one side.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// The class of the data; the catalogue must have a rule for it.
    #[arg(long, value_name = "NAME")]
    data_class: Option<String>,
    /// Instructions above the question.
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Most tokens of the answer.
    #[arg(long, value_name = "N", default_value_t = OUTPUT_CAP_DEFAULT, value_parser = clap::value_parser!(u32).range(1..))]
    max_tokens: u32,
    /// Ask for the whole answer at once.
    #[arg(long)]
    no_stream: bool,
    /// Where a provider's server is, in place of what the catalogue says.
    #[arg(long, value_name = "PROVIDER=URL")]
    base_url: Vec<String>,
    /// Append one JSON object for each attempt to this file.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Put prompt and answer into the log as well.
    #[arg(long, requires = "log")]
    log_content: bool,
    /// Print one JSON document instead of the answer and the table.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    permission: Permission,
}

pub(super) fn run(arguments: &Arguments, screen: &Screen) -> Exit {
    let trail = Arc::new(Trail::default());
    let (client, warnings) = match client(arguments, &trail) {
        Ok(client) => client,
        Err(found) => {
            screen.complain(&found);
            return Exit::BadInput;
        }
    };
    screen.complain(&warnings);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            return screen.fail(
                &format!("cannot start: {error}"),
                "close other programs, or raise the limits of this shell",
            );
        }
    };
    let stop = Arc::new(Notify::new());
    let (raised, asked) = (stop.clone(), AtomicBool::new(false));
    // Only one handler can be set in a process; without it Ctrl-C ends the process at once, which is fine.
    let _ = ctrlc::set_handler(move || {
        if asked.swap(true, Ordering::Relaxed) {
            std::process::exit(Exit::Interrupted as i32);
        }
        raised.notify_one();
    });
    let end = runtime.block_on(async {
        let end = ask(arguments, &client, &stop, screen).await;
        // Copies are a part of what the policy does: their attempts belong to the trail.
        if !matches!(end, End::Interrupted) {
            tokio::select! {
                () = client.mirrors_ended() => {}
                () = stop.notified() => {}
            }
        }
        end
    });
    // What is still in flight is cancelled, and says so.
    drop(client);
    // A verifier's program may still run, and nobody waits for its verdict any more.
    runtime.shutdown_background();
    let attempts = trail.taken();
    report(arguments, screen, &end, &attempts)
}

/// How a call ended.
enum End {
    Answered(Box<Response>, Option<String>),
    Failed(Box<CallError>),
    Interrupted,
    /// stdout could not be written.
    Unwritten,
}

/// Everything the call needs, or everything that is wrong with it.
fn client(arguments: &Arguments, trail: &Arc<Trail>) -> Result<(Client, Diagnostics), Diagnostics> {
    let mut reader = Reader {
        commands: arguments.permission.commands(),
        ..Reader::default()
    };
    let routes = arguments.routes.clone().unwrap_or_else(|| ROUTES.into());
    let catalogue = reader.catalogue(&routes);
    let names = match &catalogue {
        Ok(catalogue) => Some(catalogue),
        Err(partly) => partly.as_deref(),
    };
    let files = std::slice::from_ref(&arguments.policy);
    let policies = if arguments.policy.is_dir() {
        reader.found.push(
            Diagnostic::error(format!(
                "a call goes through one policy, and `{}` is a folder",
                super::inputs::shown(&arguments.policy)
            ))
            .help("name one of the files in it with -p"),
        );
        Vec::new()
    } else {
        reader.policies(files, names)
    };
    let mut base_urls = Vec::new();
    for given in &arguments.base_url {
        match given.split_once('=') {
            Some((provider, url)) if !provider.is_empty() && !url.is_empty() => {
                base_urls.push((provider.to_owned(), url.to_owned()));
            }
            _ => reader.found.push(
                Diagnostic::error("--base-url takes a provider and an address")
                    .help("write `--base-url openai=http://127.0.0.1:8080`"),
            ),
        }
    }
    let log = arguments.log.as_ref().and_then(|path| {
        let opened = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path);
        opened
            .map_err(|error| {
                reader.found.push(unwritable(path, &error));
            })
            .ok()
    });
    let digests: Vec<Option<String>> = [1, 0]
        .map(|index: usize| reader.digests.get(index))
        .map(|digest| digest.map(|digest| digest.sha256.clone()))
        .into();
    let (Ok(catalogue), [policy], false) =
        (catalogue, policies.as_slice(), reader.found.has_errors())
    else {
        return Err(reader.found);
    };
    let mut hooks: Vec<Arc<dyn Hook>> = vec![trail.clone(), Arc::new(Tracing)];
    if let Some(file) = log {
        hooks.push(Arc::new(JsonLines::new(file)));
    }
    let [policy_digest, routes_digest] = [digests[0].clone(), digests[1].clone()];
    let options = Options {
        tasks: arguments.task.iter().cloned().collect(),
        tenants: arguments.tenant.iter().cloned().collect(),
        policy_digest,
        routes_digest,
        base_urls,
        hooks,
        content: arguments.log_content,
        ..Options::default()
    };
    match Client::new(catalogue, policy, options) {
        Ok(client) => Ok((client, reader.found)),
        Err(errors) => {
            for error in errors {
                reader.found.push(Diagnostic::error(error.to_string()));
            }
            Err(reader.found)
        }
    }
}

async fn ask(arguments: &Arguments, client: &Client, stop: &Notify, screen: &Screen) -> End {
    let request = Request {
        system: arguments.system.clone().unwrap_or_default(),
        messages: vec![Message::user(arguments.question.as_str())],
        output_cap: arguments.max_tokens,
        ..Request::default()
    };
    let context = CallContext {
        task: arguments.task.clone(),
        tenant: arguments.tenant.clone(),
        user: arguments.user.clone(),
        data_class: arguments.data_class.clone(),
        ..CallContext::default()
    };
    if arguments.no_stream {
        let answer = tokio::select! {
            biased;
            () = stop.notified() => return End::Interrupted,
            answer = client.complete(&request, &context) => answer,
        };
        return match answer {
            Ok(completion) => {
                if !arguments.json && screen.print(&shown(&completion.response.text)) != Exit::Fine
                {
                    return End::Unwritten;
                }
                End::Answered(Box::new(completion.response), Some(completion.route))
            }
            Err(error) => End::Failed(Box::new(error)),
        };
    }
    let mut stream = client.stream(&request, &context);
    listen(&mut stream, stop, screen, arguments.json).await
}

/// Prints an answer as it comes.
async fn listen(stream: &mut AnswerStream, stop: &Notify, screen: &Screen, quiet: bool) -> End {
    let mut collector = Collector::default();
    loop {
        let event = tokio::select! {
            biased;
            () = stop.notified() => return End::Interrupted,
            event = stream.next() => event,
        };
        match event {
            Some(Ok(event)) => {
                if let StreamEvent::Text(text) = &event
                    && !quiet
                    && screen.print(&shown(text)) != Exit::Fine
                {
                    return End::Unwritten;
                }
                collector.push(event);
            }
            Some(Err(error)) => return End::Failed(Box::new(error)),
            None => {
                let route = stream.route().map(str::to_owned);
                let response = collector.response().unwrap_or_default();
                return End::Answered(Box::new(response), route);
            }
        }
    }
}

fn report(arguments: &Arguments, screen: &Screen, end: &End, attempts: &[Attempt]) -> Exit {
    let exit = match end {
        End::Answered(..) => Exit::Fine,
        End::Failed(error) if matches!(**error, CallError::UnknownDataClass { .. }) => {
            Exit::BadInput
        }
        End::Failed(_) | End::Unwritten => Exit::Failure,
        End::Interrupted => Exit::Interrupted,
    };
    if arguments.json {
        let document = document(end, attempts);
        let printed = screen.print(&plain(&format!("{document:#}\n")));
        return if exit == Exit::Fine { printed } else { exit };
    }
    // Whatever was shown of the answer ends here.
    let said_something = match end {
        End::Answered(response, _) => !response.text.is_empty(),
        End::Failed(error) => {
            matches!(&**error, CallError::MidStream { partial, .. } if !partial.is_empty())
        }
        End::Interrupted | End::Unwritten => attempts.iter().any(|one| one.ttft.is_some()),
    };
    if said_something {
        let _ = screen.print("\n");
    }
    if let End::Answered(response, _) = end {
        for call in &response.tool_calls {
            screen.say(&shown(&format!("calls {}: {}", call.name, call.raw)));
        }
        for warning in &response.warnings {
            screen.say(&format!("warning: {}", warning.name()));
        }
    }
    if !attempts.is_empty() {
        screen.say(&table(attempts));
        screen.say(&summary(attempts));
    }
    match end {
        End::Failed(error) => screen.say(&shown(&format!("error: {error}"))),
        End::Interrupted => {
            let abandoned = attempts
                .iter()
                .filter(|one| one.outcome == Outcome::Cancelled)
                .map(|one| format!("`{}`", one.route))
                .collect::<Vec<_>>();
            let what = if abandoned.is_empty() {
                "nothing was in flight".to_owned()
            } else {
                format!(
                    "abandoned the attempt at {}; what was produced until then may be billed",
                    abandoned.join(" and ")
                )
            };
            screen.say(&shown(&format!("interrupted: {what}")));
        }
        End::Answered(..) | End::Unwritten => {}
    }
    exit
}

fn table(attempts: &[Attempt]) -> String {
    let mut table = Table::new();
    table.force_no_tty().load_style(presets::NOTHING);
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let left = |text: &str| Cell::new(shown(text));
    let numbers = ["wait", "in", "out", "USD", "first token", "latency"];
    let header = ["route", "attempt", "outcome"].map(Cell::new);
    table.set_header(
        header
            .into_iter()
            .chain(numbers.map(|name| right(name.into()))),
    );
    let seconds = |time: Option<crate::units::Duration>| {
        time.map_or("-".to_owned(), |time| {
            format!("{:.3} s", time.as_secs_f64())
        })
    };
    let tokens = |count: Option<u32>| count.map_or("-".to_owned(), |count| count.to_string());
    for one in attempts {
        let route = match one.origin {
            Origin::User => one.route.clone(),
            origin => format!("{} ({})", one.route, origin.name()),
        };
        let attempt = match one.attempt {
            0 => "-".to_owned(),
            attempt => attempt.to_string(),
        };
        let waited = one.waited.filter(|waited| waited.0 > 0);
        let cost = one
            .cost
            .map_or("-".to_owned(), |cost| format!("{:.6}", cost.as_f64()));
        table.add_row([
            left(&route),
            Cell::new(attempt),
            left(&outcome(one)),
            right(seconds(waited)),
            right(tokens(one.tokens.input)),
            right(tokens(one.tokens.output)),
            right(cost),
            right(seconds(one.ttft)),
            right(seconds(one.latency)),
        ]);
    }
    table.trim_fmt()
}

fn outcome(one: &Attempt) -> String {
    let mut text = match one.outcome {
        Outcome::Ok => one.outcome.name().to_owned(),
        Outcome::Cancelled => one.outcome.name().to_owned(),
        Outcome::Skipped => format!("skipped: {}", one.reason.as_deref().unwrap_or("?")),
        Outcome::Error | Outcome::ErrorMidStream => {
            let kind = one.kind.as_deref().unwrap_or("?");
            match (one.outcome, one.status) {
                (Outcome::ErrorMidStream, _) => format!("{kind} after output"),
                (_, Some(status)) if status != 200 => format!("{kind} (HTTP {status})"),
                _ => format!("{kind} ({})", one.reason.as_deref().unwrap_or("?")),
            }
        }
    };
    if let Some(verdict) = &one.verdict {
        text.push_str(&format!(", verifier: {verdict}"));
    }
    text
}

fn summary(attempts: &[Attempt]) -> String {
    let spend = Spend::of(attempts);
    let sent = attempts
        .iter()
        .filter(|one| one.outcome != Outcome::Skipped)
        .count();
    let mut text = format!(
        "{sent} request{} sent, {:.6} USD at list price",
        if sent == 1 { "" } else { "s" },
        spend.known.as_f64()
    );
    if spend.unknown > 0 {
        text.push_str(&format!(
            " and {} of unknown cost",
            if spend.unknown == 1 {
                "one".to_owned()
            } else {
                spend.unknown.to_string()
            }
        ));
    }
    text
}

fn document(end: &End, attempts: &[Attempt]) -> serde_json::Value {
    let spend = Spend::of(attempts);
    let answer = match end {
        End::Answered(response, _) => Some(&**response),
        _ => None,
    };
    let (route, error) = match end {
        End::Answered(_, route) => (route.clone(), None),
        End::Failed(error) => {
            let partial = match &**error {
                CallError::MidStream { partial, .. } => Some(partial.as_str()),
                _ => None,
            };
            let kind = error.kind().map(crate::router::FaultKind::name);
            let error =
                json!({ "message": error.to_string(), "kind": kind, "partial_answer": partial });
            (None, Some(error))
        }
        End::Interrupted => (None, Some(json!({ "message": "interrupted" }))),
        End::Unwritten => (
            None,
            Some(json!({ "message": "stdout could not be written" })),
        ),
    };
    let calls = answer.map(|answer| {
        answer
            .tool_calls
            .iter()
            .map(|call| json!({ "id": call.id, "name": call.name, "arguments": call.arguments }))
            .collect::<Vec<_>>()
    });
    json!({
        "schema": SCHEMA,
        "answer": answer.map(|answer| &answer.text),
        "reasoning": answer.map(|answer| &answer.reasoning).filter(|text| !text.is_empty()),
        "tool_calls": calls,
        "stop": answer.map(|answer| answer.stop.name()),
        "warnings": answer.map(|answer| answer.warnings.iter().map(|one| one.name()).collect::<Vec<_>>()),
        "route": route,
        "error": error,
        "cost_usd": spend.known.as_f64(),
        "attempts_of_unknown_cost": spend.unknown,
        "trail": attempts,
    })
}

/// JSON without the control characters that JSON allows: old terminals obey them.
fn plain(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if ('\u{7f}'..='\u{9f}').contains(&c) || redirects(c) {
            // They stand in strings only.
            text.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            text.push(c);
        }
    }
    text
}

/// Marks that turn the direction of the text after them: with these a text can look like another.
fn redirects(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Foreign text for a terminal: of control characters only line feeds and tabs get through.
fn shown(text: &str) -> String {
    text.chars()
        .filter(|c| *c != '\r')
        .map(|c| match c {
            '\n' | '\t' => c,
            c if c.is_control() || redirects(c) => '\u{fffd}',
            c => c,
        })
        .collect()
}

/// Keeps every attempt, also those that end when the call is dropped.
#[derive(Debug, Default)]
struct Trail(Mutex<Vec<Attempt>>);

impl Trail {
    fn taken(&self) -> Vec<Attempt> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Hook for Trail {
    fn attempt(&self, attempt: &Attempt) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push(attempt.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_foreign_text_do_not_reach_a_terminal() {
        let hostile = "a\u{1b}[2Jb\r\n\tc\u{7}\u{9b}d\u{0}";
        assert_eq!(
            shown(hostile),
            "a\u{fffd}[2Jb\n\tc\u{fffd}\u{fffd}d\u{fffd}"
        );
    }
}
