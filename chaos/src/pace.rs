//! Keeps operations and faults in step.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use tokio::{sync::watch, time};

use crate::{args::Args, choice::Topology};

/// The longest time that an operation waits for due faults. It must not wait for all: some faults happen only during
/// calls.
const PATIENCE: Duration = Duration::from_millis(500);

/// The number of due faults that may wait while operations go on.
const BACKLOG: usize = 4;

/// The patience and the backlog under Patroni and on a Redis Cluster, where a failover takes as long as many
/// operations.
const PATIENCE_OF_FAILOVERS: Duration = Duration::from_secs(1);
const BACKLOG_OF_FAILOVERS: usize = 0;

/// Hands out the numbers of the operations, in step with the faults. Otherwise, on a fast machine, the clients
/// would be done before most of the faults had begun.
#[derive(Debug)]
pub(crate) struct Pace {
    backlog: usize,
    /// The number of operations that have begun.
    begun: watch::Sender<u32>,
    next: AtomicU32,
    operations: u32,
    patience: Duration,
    /// The number of due faults that have not begun.
    waiting: watch::Sender<usize>,
}

impl Pace {
    pub(crate) fn new(args: &Args) -> Self {
        let (backlog, patience) = match args.topology {
            Topology::Patroni | Topology::RedisCluster => (BACKLOG_OF_FAILOVERS, PATIENCE_OF_FAILOVERS),
            Topology::Partitioned | Topology::Pgbouncer | Topology::Single => (BACKLOG, PATIENCE),
        };
        let (begun, waiting) = (watch::Sender::new(0), watch::Sender::new(0));
        Self { backlog, begun, next: AtomicU32::new(0), operations: args.operations, patience, waiting }
    }

    /// Returns the next operation's number; `None` after the last.
    pub(crate) async fn next(&self) -> Option<u32> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if number >= self.operations {
            return None;
        }
        self.begun.send_modify(|begun| *begun += 1);
        let mut waiting = self.waiting.subscribe();
        // After this time the operation goes on without the faults.
        let _ = time::timeout(self.patience, waiting.wait_for(|waiting| *waiting <= self.backlog)).await;
        Some(number)
    }

    /// Waits until this many operations have begun.
    pub(crate) async fn reached(&self, operations: u32) {
        // Does not fail: the sender lives as long as `self`.
        let _ = self.begun.subscribe().wait_for(|begun| *begun >= operations).await;
    }

    /// Sets the number of due faults that have not begun.
    pub(crate) fn set_waiting(&self, faults: usize) {
        self.waiting.send_if_modified(|waiting| std::mem::replace(waiting, faults) != faults);
    }
}
