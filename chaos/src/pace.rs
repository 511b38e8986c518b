use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use tokio::{sync::watch, time};

/// The longest that an operation waits for faults that are due: some of them need calls to happen.
const PATIENCE: Duration = Duration::from_millis(500);

/// More faults than this are not left waiting while operations go on.
const BACKLOG: usize = 4;

/// Hands out the numbers of the operations, and keeps them and the faults in step: on a fast machine the clients would
/// be done before the faults that were meant for them have had their turn.
#[derive(Debug)]
pub(crate) struct Pace {
    /// How many operations have begun.
    begun: watch::Sender<u32>,
    next: AtomicU32,
    operations: usize,
    /// How many faults are due and have not begun.
    waiting: watch::Sender<usize>,
}

impl Pace {
    pub(crate) fn new(operations: usize) -> Self {
        Self { begun: watch::Sender::new(0), next: AtomicU32::new(0), operations, waiting: watch::Sender::new(0) }
    }

    /// The next operation's number; `None` once there are no more.
    pub(crate) async fn next(&self) -> Option<u32> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if number as usize >= self.operations {
            return None;
        }
        self.begun.send_modify(|begun| *begun += 1);
        let mut waiting = self.waiting.subscribe();
        // Then it goes on without them.
        let _ = time::timeout(PATIENCE, waiting.wait_for(|waiting| *waiting <= BACKLOG)).await;
        Some(number)
    }

    /// Waits until this many operations have begun.
    pub(crate) async fn reached(&self, operations: u32) {
        // Its sender lives as long as this does.
        let _ = self.begun.subscribe().wait_for(|begun| *begun >= operations).await;
    }

    /// How many faults are due and have not begun.
    pub(crate) fn set_waiting(&self, faults: usize) {
        self.waiting.send_if_modified(|waiting| std::mem::replace(waiting, faults) != faults);
    }
}
