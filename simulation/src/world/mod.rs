//! One thread, whose clock, random numbers and network belong to a seed: [`World`].
//!
//! Nothing outside of a seed gets in: time passes only when all tasks wait, and `libc.rs` answers what the standard library and others ask the
//! system for. tokio's own random numbers depend on how many runtimes the process has made before. So whatever runs here does without them: no
//! `select!` that is not `biased`, and no `watch` on which several tasks wait.

mod host;
mod libc;
mod link;
mod random;
mod signal;
mod trace;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

pub use self::{
    host::{Host, Process},
    libc::{BEGINNING, IS_REPEATABLE},
    link::{Cut, Link, Weather},
    random::Random,
    signal::Signal,
    trace::{Keeps, Trace},
};
use crate::sometimes::Counts;

/// The world of one run. Clones share it.
#[derive(Clone)]
pub struct World(Arc<Shared>);

struct Shared {
    seed: u64,
    began: Instant,
    trace: Trace,
    counts: Mutex<BTreeMap<&'static str, BTreeMap<String, u64>>>,
}

impl World {
    /// Returns the seed.
    pub fn seed(&self) -> u64 {
        self.0.seed
    }

    /// Returns the time since the world began.
    pub fn time(&self) -> Duration {
        self.0.began.elapsed()
    }

    /// Sets the wall clocks of all processes ahead by so many milliseconds, or back. The database's clock is its own.
    pub fn set_wall_clocks(&self, by: i64) {
        libc::set_wall_clocks(by);
    }

    /// Returns the stream of random numbers of this name: the same seed and name always give the same numbers.
    pub fn random(&self, of: &str) -> Random {
        Random::new(self.0.seed, of)
    }

    /// Adds an event to the trace.
    pub fn tell(&self, who: fmt::Arguments<'_>, event: fmt::Arguments<'_>) {
        self.0.trace.tell(self.time(), who, event);
    }

    /// Counts what happens to something.
    pub fn count(&self, of: &'static str, what: &str) {
        let mut counts = self.0.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let of = counts.entry(of).or_default();
        match of.get_mut(what) {
            Some(count) => *count += 1,
            None => drop(of.insert(what.to_owned(), 1)),
        }
    }

    /// Returns how often each thing has happened.
    pub fn counts(&self) -> Counts {
        let counts = self.0.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |(of, counts): (&&str, &BTreeMap<String, u64>)| {
            counts.iter().map(|(what, count)| (format!("{of}: {what}"), *count)).collect::<Vec<_>>()
        };
        counts.iter().flat_map(of).collect()
    }

    /// Returns the trace.
    pub fn trace(&self) -> &Trace {
        &self.0.trace
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("seed", &self.0.seed).finish_non_exhaustive()
    }
}

/// Runs a world to its end, in a thread of its own.
///
/// # Panics
///
/// Goes on with the panic of the run.
pub fn run<T: Send + 'static, F: Future<Output = T>>(
    seed: u64,
    keeps: Keeps,
    live: impl FnOnce(World) -> F + Send + 'static,
) -> T {
    let thread = std::thread::Builder::new().name(format!("seed {seed}")).stack_size(16 << 20).spawn(move || {
        libc::draw_from(seed);
        fastrand::seed(seed);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime without I/O");
        let ended = runtime.block_on(async {
            libc::follow_runtime();
            let shared = Shared { seed, began: Instant::now(), trace: Trace::new(keeps), counts: Mutex::default() };
            live(World(Arc::new(shared))).await
        });
        // What tasks do when they are dropped is after the end.
        libc::leave();
        ended
    });
    match thread.expect("a thread").join() {
        Ok(ended) => ended,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
