//! Many seeds, on all processors.

use std::{
    collections::BTreeMap,
    ops::Range,
    panic, process,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::{
    audit::Violation,
    panics::hush,
    plan::Plan,
    run::{Report, run},
    sometimes::Counts,
    world::Keeps,
};

/// The longest time of a seed in the real world: one that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many seeds to run.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// The seeds.
    pub seeds: Range<u64>,
    /// The number of operations of each; `None` for as many as it draws.
    pub operations: Option<usize>,
    /// No seed begins once as many calls have been made.
    pub calls: u64,
    /// No seed begins after this time.
    pub time: Duration,
    /// No seed begins once as many have broken a promise.
    pub failures: usize,
    /// How many run at the same time.
    pub threads: usize,
}

/// The result of many seeds.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The number of seeds that have run.
    pub seeds: u64,
    /// The number of calls that their clients made.
    pub calls: u64,
    /// Seeds that broke a promise, in ascending order.
    pub failures: Vec<(u64, Vec<Violation>)>,
    /// How often each excuse was used.
    pub excuses: Counts,
    /// How often other things have happened.
    pub counts: Counts,
}

/// Runs seeds until one bound is reached. `tell` hears of the progress after each seed. If a seed hangs, the
/// process ends with its number.
pub fn swarm(bounds: &Bounds, tell: impl Fn(u64, u64) + Sync) -> Outcome {
    let (next, seeds, calls) = (AtomicU64::new(bounds.seeds.start), AtomicU64::new(0), AtomicU64::new(0));
    let (failures, excuses, counts) = (Mutex::new(Vec::new()), Mutex::new(Counts::new()), Mutex::new(Counts::new()));
    let began = Instant::now();
    let running = Arc::new(Running::default());
    hush();
    let watched = Arc::downgrade(&running);
    thread::spawn(move || watch(&watched));
    thread::scope(|scope| {
        for _ in 0..bounds.threads.max(1) {
            scope.spawn(|| {
                while lock(&failures).len() < bounds.failures
                    && calls.load(Ordering::Relaxed) < bounds.calls
                    && began.elapsed() < bounds.time
                {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= bounds.seeds.end {
                        break;
                    }
                    let plan = Plan::new(seed, bounds.operations);
                    lock(&running).insert(seed, Instant::now());
                    let report =
                        panic::catch_unwind(|| run(plan, Keeps::Nothing)).unwrap_or_else(|_| Report::panicked());
                    lock(&running).remove(&seed);
                    let made = calls.fetch_add(report.calls as u64, Ordering::Relaxed) + report.calls as u64;
                    tell(seeds.fetch_add(1, Ordering::Relaxed) + 1, made);
                    add(&excuses, report.excuses);
                    add(&counts, report.counts);
                    if !report.violations.is_empty() {
                        lock(&failures).push((seed, report.violations));
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    failures.sort_by_key(|(seed, _)| *seed);
    let excuses = excuses.into_inner().unwrap_or_else(PoisonError::into_inner);
    let counts = counts.into_inner().unwrap_or_else(PoisonError::into_inner);
    Outcome { seeds: seeds.into_inner(), calls: calls.into_inner(), failures, excuses, counts }
}

/// The seeds that run, and since when.
type Running = Mutex<BTreeMap<u64, Instant>>;

/// Ends the process if a seed hangs.
#[expect(clippy::print_stdout, reason = "nothing else gets out of a process that hangs")]
fn watch(running: &Weak<Running>) {
    while let Some(running) = running.upgrade() {
        if let Some((seed, _)) = lock(&running).iter().find(|(_, began)| began.elapsed() > PATIENCE) {
            println!("\nseed {seed} breaks a promise:\n  nothing hangs: it has not ended in {PATIENCE:?}");
            process::exit(1);
        }
        drop(running);
        thread::sleep(Duration::from_secs(1));
    }
}

fn add(to: &Mutex<Counts>, counts: Counts) {
    let mut to = lock(to);
    for (what, count) in counts {
        *to.entry(what).or_default() += count;
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
