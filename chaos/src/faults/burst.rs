//! Many calls at once.

use std::{sync::Arc, time::Duration};

use tokio::task::JoinSet;

use super::stage::Stage;
use crate::{
    fleet::Backend,
    journal::{Journal, Purpose},
    operation::{Operation, Variant},
};

/// The time that a call of the burst waits for its answer.
const PATIENCE: Duration = Duration::from_secs(5);

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
            burst.spawn(duplicate(backend, journal, operation));
        }
    }
    burst
}

async fn duplicate(backend: Arc<Backend>, journal: Arc<Journal>, operation: Operation) {
    let running = journal.begin(operation.number, Variant::Asked, Purpose::Burst, backend.server());
    let outcome = backend.call(&operation, Variant::Asked, PATIENCE).await;
    journal.end(running, outcome);
}
