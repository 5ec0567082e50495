//! A long run with somebody watching: its threads, its progress bar, and Ctrl-C.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::Exit;
use super::screen::Screen;
use crate::sim::Stopped;

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
    let stop = Arc::new(AtomicBool::new(false));
    let raised = stop.clone();
    // Only one handler can be set in a process; without it Ctrl-C ends the process at once, which is fine.
    let _ = ctrlc::set_handler(move || {
        if raised.swap(true, Ordering::Relaxed) {
            std::process::exit(Exit::Interrupted as i32);
        }
    });
    let progress = if quiet || !screen.is_watched() {
        ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden())
    } else {
        ProgressBar::new(total)
    };
    if let Ok(style) =
        ProgressStyle::with_template("{bar:30} {human_pos} of {human_len} requests, {eta} left")
    {
        progress.set_style(style);
    }
    let mut pool = rayon::ThreadPoolBuilder::new();
    if let Some(threads) = threads {
        pool = pool.num_threads(usize::from(threads));
    }
    let pool = pool.build().map_err(|error| {
        screen.say(&format!("error: cannot start the threads: {error}"));
        Exit::Failure
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
            screen.say(&format!("error: {why}"));
            Exit::Failure
        }
        Stopped::Interrupted(_) => {
            screen.say(&format!(
                "interrupted after {} of {total} requests; nothing was written",
                done
            ));
            Exit::Interrupted
        }
    })
}
