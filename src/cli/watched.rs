//! A long run with somebody watching: its threads, its progress bar, and Ctrl-C.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::Exit;
use super::resume::Resume;
use super::screen::Screen;
use crate::sim::Stopped;

/// The flag that Ctrl-C raises. A process has one handler, and so one flag for all of its runs.
fn flag() -> Arc<AtomicBool> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    FLAG.get_or_init(|| {
        let flag = Arc::new(AtomicBool::new(false));
        let raised = flag.clone();
        // Without a handler Ctrl-C ends the process at once, which is fine.
        let _ = ctrlc::set_handler(move || {
            if raised.swap(true, Ordering::Relaxed) {
                std::process::exit(Exit::Interrupted as i32);
            }
        });
        flag
    })
    .clone()
}

/// As [`run`], and if it is interrupted, what was done is kept.
pub(super) fn run_resumable<T: Send>(
    total: u64,
    threads: Option<u16>,
    quiet: bool,
    resume: &Resume,
    screen: &Screen,
    job: impl FnOnce(&(dyn Fn(u64) + Sync), &AtomicBool) -> Result<T, Stopped> + Send,
) -> Result<T, Exit> {
    watch(total, threads, quiet, Some(resume), screen, job)
}

/// Runs `job`, which will go through `total` requests, on this many threads (one per core if nobody
/// says). It is told how to report progress and a flag that is raised when it should stop. What stopped it
/// is said on the screen.
pub(super) fn run<T: Send>(
    total: u64,
    threads: Option<u16>,
    quiet: bool,
    screen: &Screen,
    job: impl FnOnce(&(dyn Fn(u64) + Sync), &AtomicBool) -> Result<T, Stopped> + Send,
) -> Result<T, Exit> {
    watch(total, threads, quiet, None, screen, job)
}

fn watch<T: Send>(
    total: u64,
    threads: Option<u16>,
    quiet: bool,
    resume: Option<&Resume>,
    screen: &Screen,
    job: impl FnOnce(&(dyn Fn(u64) + Sync), &AtomicBool) -> Result<T, Stopped> + Send,
) -> Result<T, Exit> {
    let stop = flag();
    let progress = if quiet || !screen.is_watched() {
        ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden())
    } else {
        ProgressBar::new(total)
    };
    if let Ok(style) = ProgressStyle::with_template(
        "{bar:30} {human_pos} of {human_len} requests, {per_sec}, {eta} left",
    ) {
        progress.set_style(style);
    }
    let mut pool = rayon::ThreadPoolBuilder::new();
    if let Some(threads) = threads {
        pool = pool.num_threads(usize::from(threads));
    }
    let pool = pool.build().map_err(|error| {
        screen.fail(
            &format!("cannot start the threads: {error}"),
            "ask for fewer with --threads",
        )
    })?;
    let ran = pool.install(|| job(&|done| progress.inc(done), &stop));
    let done = progress.position();
    progress.finish_and_clear();
    ran.map_err(|stopped| match stopped {
        Stopped::Invalid(found) => {
            screen.complain(&found);
            Exit::BadInput
        }
        Stopped::Failed(why) => {
            screen.fail(&why, "try fewer --requests or --threads; if it fails again, report it with this command line")
        }
        Stopped::Interrupted(checkpoint) => {
            let done = format!("after {done} of {total} requests");
            match (resume, checkpoint) {
                (Some(resume), Some(checkpoint)) => resume.keep(&done, &checkpoint, screen),
                _ => {
                    screen.say(&format!("interrupted {done}; nothing was written"));
                    Exit::Interrupted
                }
            }
        }
    })
}
