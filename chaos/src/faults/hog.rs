//! A user who holds all transactions of a server.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::{task::JoinSet, time};

use super::stage::Stage;
use crate::{
    fleet::Backend,
    journal::{Purpose, Starvation, Whom},
    mode::Mode,
    operation::{Operation, Variant},
};

/// The number of the user's calls at the same time: several times as many as there are connections.
const CALLS: usize = 64;

/// The time that they take to be there.
const ARRIVAL: Duration = Duration::from_millis(700);

/// The time in which another user's call and its retry have to be answered. Behind all the calls of the user it would
/// take longer.
const PROMPT: Duration = Duration::from_secs(4);

/// The longest wait for an answer of the calls that hold the transactions.
const PATIENCE: Duration = Duration::from_secs(6);

/// The pause between the other user's attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// One user calls a server with all but the last of the operations; another user calls it with the last, and retries.
///
/// In reserved mode the handlers have no transactions of the layer, but connections of the sample, which one user may hold.
/// There the other user calls before, and only retries meanwhile.
pub(super) async fn happen(stage: &Stage, operations: Range<u32>) -> Option<Whom> {
    let backend = stage.rotation.first().await;
    let (backend, of_hog) = (Arc::new(backend.apart()), Arc::new(backend.apart()));
    let operation = stage.operations.get(operations.end.checked_sub(1)? as usize)?;
    let begun = stage.journal.now();
    if stage.mode == Mode::Reserved {
        answered(stage, &backend, operation, PATIENCE).await;
    }
    let next = Arc::new(AtomicU32::new(operations.start));
    let mut calls = JoinSet::new();
    for _ in 0..CALLS {
        calls.spawn(hold(stage.clone(), Arc::clone(&of_hog), Arc::clone(&next), operations.end - 1));
    }
    time::sleep(ARRIVAL).await;
    for _ in 0..2 {
        if !answered(stage, &backend, operation, PROMPT).await {
            let (operation, server, ended) = (operation.number, backend.server(), stage.journal.now());
            stage.journal.entries().starved.push(Starvation { operation, server, begun, ended });
            break;
        }
    }
    calls.join_all().await;
    Some(Whom::Server(backend.server()))
}

/// Makes one call of the user after the other, until there are no more.
async fn hold(stage: Stage, backend: Arc<Backend>, next: Arc<AtomicU32>, end: u32) {
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let Some(operation) = stage.operations.get(number as usize).filter(|_| number < end) else { return };
        backend.attempt(&stage.journal, operation, (Variant::Asked, Purpose::Hog), PATIENCE).await;
    }
}

/// Calls until there is an answer, and returns whether there was one in time.
async fn answered(stage: &Stage, backend: &Backend, operation: &Operation, within: Duration) -> bool {
    let deadline = time::Instant::now() + within;
    loop {
        let left = deadline.saturating_duration_since(time::Instant::now());
        if left.is_zero() {
            return false;
        }
        let purpose = (Variant::Asked, Purpose::Ask);
        if backend.attempt(&stage.journal, operation, purpose, left).await.is_final() {
            return true;
        }
        time::sleep(PAUSE).await;
    }
}
