//! A wind tunnel for LLM routing policies: run several policies on the same traffic and compare what
//! they cost, how accurate they are, and how sure that is.
//!
//! The command line is [`cli`]; everything behind it can be used as a library. On one page:
//!
//! ```text
//! routes.toml ──catalogue──▶ Catalogue ──┐
//! policies/*.toml ──policy──▶ PolicyFile ─┼─▶ sim::run ──▶ Results ──report::findings──▶ Findings
//! workloads/*.toml ─workload─▶ Workload ──┘                                        │
//!                                                            table, Markdown, CSV, JSON
//! ```
//!
//! | module | what it is |
//! | --- | --- |
//! | [`units`] | quantities with their unit in the type; integers wherever a decision or a sum depends on them |
//! | [`source`] | text that people wrote, with the place of every value, and errors that point at it |
//! | [`router`] | the router core: takes what happened, says what to do next; no clock, no randomness, no I/O |
//! | [`catalogue`] | `routes.toml`: what each route costs, reads and may see; how the router behaves |
//! | [`workload`] | the traffic and the truth about it: drawn from a model, or recorded |
//! | [`wire`] | normalised requests and answers, and an adapter per provider's dialect; pure, sends nothing |
//! | [`verify`] | who looks at an answer before it is served: rates, checks, judges |
//! | [`policy`] | given what may be known about a request: which routes should try, in which order |
//! | [`standin`] | who answers instead of a provider: rows of a table, bytes in this process, or servers on this machine |
//! | [`sim`] | every policy on the same requests, tallied in integers |
//! | [`size`] | how many examples, pairs or requests a decision needs, computed before it is run |
//! | [`stats`] | tallies in, estimates with intervals out |
//! | [`sweep`] | one or two parameters over a range: which points there are, and what they need |
//! | [`report`] | findings from results, and the renderers that write them down |
//! | [`traffic`] | the record of one attempt: what was asked where, what came of it |
//! | `live` | real calls through a policy, over sockets (feature `live`) |
//! | [`cli`] | arguments, files, the screen, exit codes |
//!
//! Reading never stops at the first mistake: complaints are collected in [`source::Diagnostics`] with
//! their file and line, and `None` is returned if there were any errors.
//!
//! # A whole experiment
//!
//! Two routes, one policy, ten thousand requests of an invented world. The cascade asks the cheap
//! route first and pays the dear one only where a verifier rejects the answer.
//!
//! ```
//! use std::sync::atomic::AtomicBool;
//!
//! use routelab::report::{self, Manifest, Options};
//! use routelab::sim::{self, Experiment};
//! use routelab::source::{Diagnostics, SourceFile};
//! use routelab::{catalogue, policy, workload};
//!
//! let routes = r#"
//! [route.small]
//! provider = "openai"
//! model = "small-2026-10-01"
//! residency = ["eu"]
//! usd_per_mtok = { input = 0.15, output = 0.60 }
//!
//! [route.large]
//! provider = "gemini"
//! model = "large-2026-10-01"
//! residency = ["eu"]
//! usd_per_mtok = { input = 8.00, output = 24.00 }
//!
//! [require]
//! default = { residency = ["eu"] }
//! "#;
//! let cascade = r#"
//! [cascade]
//! order = ["small", "large"]
//! verifier.simulated = { accept_if_correct = 1.0, accept_if_wrong = 0.0 }
//! "#;
//! let world = r#"
//! [synthetic]
//! requests = 10_000
//!
//! [synthetic.task.faq]
//! share = 1.0
//! difficulty = { beta = [2, 5] }
//! tokens = { input = 400, output = 120 }
//!
//! [synthetic.model.small]
//! skill = { faq = 0.45 }
//!
//! [synthetic.model.large]
//! skill = { faq = 0.80 }
//! "#;
//!
//! let mut found = Diagnostics::default();
//! let catalogue = catalogue::parse(&SourceFile::new("routes.toml", routes), &mut found)
//!     .expect("a catalogue");
//! let file = SourceFile::new("cascade.toml", cascade);
//! let policies = [policy::parse(&file, "cascade", &catalogue, &mut found).expect("a policy")];
//! let workload = workload::parse(&SourceFile::new("faq.toml", world), "faq", &mut found)
//!     .and_then(|spec| spec.build(None, &mut found)) // no data file: the world is synthetic
//!     .expect("a workload");
//!
//! let experiment = Experiment {
//!     catalogue: &catalogue,
//!     workload: &workload,
//!     policies: &policies,
//!     seed: 1,
//!     requests: workload.len(),
//!     replicates: 1,
//!     baseline: None, // the most accurate single route
//!     controls: true,
//!     stage: None,
//!     slices: false,
//!     timed: None,
//!     cluster: None,
//! };
//! let results = sim::run(&experiment, &mut found, &|_done| {}, &AtomicBool::new(false))
//!     .expect("the three files fit each other");
//! let findings = report::findings(&results, &Options::default(), Manifest::default())
//!     .expect("sound options");
//!
//! let measured = |name: &str, metric: &str| {
//!     let row = findings.row(name).expect("a row");
//!     row.metric(metric).and_then(|estimate| estimate.value).expect("a value")
//! };
//! // Errors of the two routes are independent here and the verifier is perfect, so the cascade is
//! // more accurate than its best route, and cheaper, because most requests end at the small one.
//! assert_eq!(findings.baseline.as_deref(), Some("always-large"));
//! assert!(measured("cascade", "accuracy") > measured("always-large", "accuracy"));
//! assert!(measured("cascade", "usd_per_1k") < 0.5 * measured("always-large", "usd_per_1k"));
//! assert!(measured("cascade", "accuracy") <= measured("oracle", "accuracy"));
//!
//! // The same inputs and seed give the same bytes, in every format.
//! let table = report::Renderer::named("table").expect("a renderer");
//! assert!((table.render)(&findings).contains("always-large"));
//! ```

pub mod catalogue;
pub mod cli;
#[cfg(feature = "live")]
pub mod live;
pub mod policy;
pub mod report;
pub mod router;
pub mod sim;
pub mod size;
pub mod source;
pub mod standin;
pub mod stats;
pub mod sweep;
pub mod timeline;
pub mod traffic;
pub mod units;
pub mod verify;
pub mod wire;
pub mod workload;
