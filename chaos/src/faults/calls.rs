//! Many calls at once.

use std::{ops::Range, pin::pin, sync::Arc, time::Duration};

use tokio::{task::JoinSet, time};

use super::stage::Stage;
use crate::{
    error::Error,
    journal::{Purpose, Whom},
    operation::Variant,
    outcome::Outcome,
};

/// The time that a call of a burst waits for its answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// While the database is away, a server gets this many calls at each interval: there may be no other ones just then.
const CALLS: usize = 4;
const INTERVAL: Duration = Duration::from_millis(100);

/// The time for which each client of a flood stays, at most: long enough for its call to be sent, and not for its answer.
const STAY: Duration = Duration::from_millis(30);

/// Sends one server this many duplicates of calls that clients wait for or waited for.
pub(super) fn burst(stage: &Stage, calls: usize) -> JoinSet<()> {
    let mut burst = JoinSet::new();
    let Some(backend) = stage.rotation.all().into_iter().next() else { return burst };
    let recent: Vec<u32> = {
        let entries = stage.journal.entries();
        entries.attempts.iter().rev().take(calls).map(|attempt| attempt.operation).collect()
    };
    for number in recent.into_iter().cycle().take(calls) {
        let (backend, journal) = (Arc::clone(&backend), Arc::clone(&stage.journal));
        if let Some(operation) = stage.operations.get(number as usize).cloned() {
            burst.spawn(async move {
                backend.attempt(&journal, &operation, (Variant::Asked, Purpose::Burst), PATIENCE).await;
            });
        }
    }
    burst
}

/// Does something to the database, and calls a server all the time.
pub(super) async fn with_calls(stage: &Stage, deed: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
    let mut deed = pin!(deed);
    let mut ticks = time::interval(INTERVAL);
    let mut calls = Vec::new();
    loop {
        tokio::select! {
            done = &mut deed => break done?,
            _ = ticks.tick() => calls.push(burst(stage, CALLS)),
        }
    }
    for calls in calls {
        calls.join_all().await;
    }
    Ok(())
}

/// Calls a server for each of the operations, over one connection, and hangs up at once.
pub(super) async fn flood(stage: &Stage, operations: Range<u32>) -> Whom {
    let backend = Arc::new(stage.rotation.first().await.apart());
    let mut calls = JoinSet::new();
    let count = operations.len().max(1);
    for (nth, number) in operations.enumerate() {
        let Some(operation) = stage.operations.get(number as usize).cloned() else { continue };
        let (backend, journal) = (Arc::clone(&backend), Arc::clone(&stage.journal));
        let stay = STAY.mul_f64((nth + 1) as f64 / count as f64);
        calls.spawn(async move {
            let attempt = journal.begin(number, Variant::Asked, Purpose::Flood, backend.server());
            let calling = backend.call(&operation, Variant::Asked, STAY);
            journal.end(attempt, time::timeout(stay, calling).await.unwrap_or(Outcome::HungUp));
        });
    }
    calls.join_all().await;
    Whom::Server(backend.server())
}
