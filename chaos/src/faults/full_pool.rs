//! Locks the table of keys so that a server's pool fills up.

use std::{collections::HashMap, time::Duration};

use tokio::time;
use tokio_postgres::Client;

use super::{burst::burst, stage::Stage};
use crate::{error::Error, fault::FaultKind, journal::Whom};

/// The number of connections that the sample has for its store, and again for its handlers.
const POOL: usize = 16;

/// The number of calls at once: more than there are connections.
const BURST: usize = 2 * POOL;

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
        let mut calls = burst(self.stage, BURST);
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

    /// Whether as many connections of one server wait for a lock as its pool has. Behind PgBouncer it is not known whose
    /// they are.
    async fn is_full(&self, witness: &Client) -> Result<bool, Error> {
        let mut slots = HashMap::new();
        let ports: Vec<_> = match &self.stage.behind_bouncer {
            Some(behind) => vec![behind.ports()],
            None => self.stage.ways.iter().map(|way| way.ports()).collect(),
        };
        let mut waiting = vec![0; ports.len()];
        for (slot, ports) in ports.into_iter().enumerate() {
            slots.extend(ports.into_iter().map(|port| (i32::from(port), slot)));
        }
        for row in witness.query(WAITING, &[]).await? {
            if let Some(waiting) = slots.get(&row.try_get(0)?).and_then(|slot| waiting.get_mut(*slot)) {
                *waiting += 1;
            }
        }
        Ok(waiting.into_iter().any(|waiting| waiting >= POOL))
    }
}
