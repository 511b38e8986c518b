//! A flood of calls that hang up.

use std::{ops::Range, sync::Arc, time::Duration};

use tokio::{task::JoinSet, time};

use super::stage::Stage;
use crate::{
    fault::FaultKind,
    journal::{Purpose, Whom},
    operation::Variant,
    outcome::Outcome,
};

/// The time for which each client stays, at most: long enough for its call to be sent, and not for its answer.
const STAY: Duration = Duration::from_millis(30);

/// Calls a server for each of the operations, over one connection, and hangs up at once.
pub(super) async fn happen(stage: &Stage, operations: Range<u32>) {
    let backend = stage.rotation.first().await;
    let backend = Arc::new(backend.apart());
    let begun = stage.journal.now();
    let mut calls = JoinSet::new();
    let count = operations.len().max(1);
    for (nth, number) in operations.enumerate() {
        let Some(operation) = stage.operations.get(number as usize).cloned() else { continue };
        let (backend, journal) = (Arc::clone(&backend), Arc::clone(&stage.journal));
        let stay = STAY.mul_f64((nth + 1) as f64 / count as f64);
        calls.spawn(async move {
            let running = journal.begin(number, Variant::Asked, Purpose::Flood, backend.server());
            let calling = backend.call(&operation, Variant::Asked, STAY);
            let outcome = time::timeout(stay, calling).await.unwrap_or(Outcome::HungUp);
            journal.end(running, outcome);
        });
    }
    while calls.join_next().await.is_some() {}
    stage.journal.fault(FaultKind::Flooded, Whom::Server(backend.server()), begun);
}
