//! Locks the table of keys so that a server's pool fills up.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::{task::JoinSet, time};
use tokio_postgres::Client;

use super::stage::Stage;
use crate::{
    error::Error,
    fault::FaultKind,
    fleet::Backend,
    journal::{Journal, Purpose, Whom},
    operation::{Operation, Variant},
};

/// The number of connections that the sample has for its store, and again for its handlers.
const POOL: usize = 16;

/// The number of calls at once: more than there are connections.
const BURST: usize = 2 * POOL;

/// The time that a call of the burst waits for its answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Takes the lock, or gives up after a second: other statements would queue behind it.
const LOCK: &str = "SET lock_timeout = '1s'; BEGIN; LOCK TABLE tenant.idempotency_keys IN ACCESS EXCLUSIVE MODE";

/// Selects the ports of the connections that wait for a lock.
const WAITING: &str = "SELECT client_port FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND client_port > 0";

/// The interval between two checks whether a pool is full.
const LOOK: Duration = Duration::from_millis(50);

/// Locks the table of keys, and sends a server more calls than it has connections for.
pub(super) struct FullPool<'a> {
    stage: &'a Stage,
}

impl<'a> FullPool<'a> {
    pub(super) fn new(stage: &'a Stage) -> Self {
        Self { stage }
    }

    /// Holds the lock for this long. The fault counts only if all connections of a server's pool waited for it.
    pub(super) async fn happen(&self, hold: Duration) {
        let begun = self.stage.journal.now();
        // Otherwise the lock was not granted, or the clients had too few calls under way.
        if matches!(self.try_happen(hold).await, Ok(true)) {
            self.stage.journal.fault(FaultKind::PoolFull, Whom::All, begun);
        }
    }

    async fn try_happen(&self, hold: Duration) -> Result<bool, Error> {
        let holder = self.stage.database.connect().await?;
        let witness = self.stage.database.connect().await?;
        holder.batch_execute(LOCK).await?;
        // The calls end when the lock is released, or soon after.
        let mut calls = self.burst();
        let released = time::Instant::now() + hold;
        let mut full = false;
        while time::Instant::now() < released {
            full |= self.is_full(&witness).await?;
            time::sleep(LOOK).await;
        }
        holder.batch_execute("ROLLBACK").await?;
        while calls.join_next().await.is_some() {}
        Ok(full)
    }

    /// Sends one server duplicates of calls that clients wait for or waited for.
    fn burst(&self) -> JoinSet<()> {
        let mut calls = JoinSet::new();
        let Some(backend) = self.stage.rotation.all().into_iter().next() else { return calls };
        let recent: Vec<u32> = {
            let entries = self.stage.journal.entries();
            entries.attempts.iter().rev().take(BURST).map(|attempt| attempt.operation).collect()
        };
        for number in recent.into_iter().cycle().take(BURST) {
            let (backend, journal) = (Arc::clone(&backend), Arc::clone(&self.stage.journal));
            if let Some(operation) = self.stage.operations.get(number as usize).cloned() {
                calls.spawn(duplicate(backend, journal, operation));
            }
        }
        calls
    }

    /// Whether as many connections of one server wait for a lock as its pool has.
    async fn is_full(&self, witness: &Client) -> Result<bool, Error> {
        let mut slots = HashMap::new();
        for (slot, proxy) in self.stage.proxies.iter().enumerate() {
            slots.extend(proxy.ports().into_iter().map(|port| (i32::from(port), slot)));
        }
        let mut waiting = vec![0; self.stage.proxies.len()];
        for row in witness.query(WAITING, &[]).await? {
            if let Some(waiting) = slots.get(&row.try_get(0)?).and_then(|slot| waiting.get_mut(*slot)) {
                *waiting += 1;
            }
        }
        Ok(waiting.into_iter().any(|waiting| waiting >= POOL))
    }
}

async fn duplicate(backend: Arc<Backend>, journal: Arc<Journal>, operation: Operation) {
    let running = journal.begin(operation.number, Variant::Asked, Purpose::Burst, backend.server());
    let outcome = backend.call(&operation, Variant::Asked, PATIENCE).await;
    journal.end(running, outcome);
}
