//! Calls while the database is away.

use std::{pin::pin, sync::Arc, time::Duration};

use tokio::{task::JoinSet, time};

use super::stage::Stage;
use crate::{error::Error, journal::Purpose, operation::Variant};

/// The time that a call of a burst waits for its answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// While the database is away, a server gets this many calls at each interval: there may be no other ones just then.
const CALLS: usize = 4;
const INTERVAL: Duration = Duration::from_millis(100);

/// Sends one server this many duplicates of calls that clients wait for or waited for.
fn burst(stage: &Stage, calls: usize) -> JoinSet<()> {
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
