//! Locks on the tables, and what they make slow.

use std::{collections::HashMap, time::Duration};

use tokio::time;
use tokio_postgres::Client;

use super::{calls::burst, stage::Stage};
use crate::error::Error;

/// The most attempts to get a lock: a paused server may hold a conflicting one for a lease.
pub(super) const ATTEMPTS: usize = 60;

const LOCK_KEYS: &str = "BEGIN; LOCK TABLE tenant.idempotency_keys IN ACCESS EXCLUSIVE MODE";
const LOCK_OUTBOX: &str = "BEGIN; LOCK TABLE authz.outbox IN ACCESS EXCLUSIVE MODE";

/// The number of connections that the sample has for its store, and again for its handlers.
pub(super) const POOL: usize = 16;

/// Selects the ports of the connections that wait for a lock.
const WAITING: &str = "SELECT client_port FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND client_port > 0";

/// The interval between two checks whether a pool is full.
const LOOK: Duration = Duration::from_millis(50);

/// Selects the definition of the function that looks a status up.
const DEFINITION: &str =
    "SELECT pg_catalog.pg_get_functiondef('tenant.idempotency_resource_status(text, text)'::regprocedure)";

/// The start of its body, and the same with a look-up that takes longer than the store's timeout leaves for it.
const BODY: [&str; 2] = ["\nBEGIN\n", "\nBEGIN\n    PERFORM pg_catalog.pg_sleep(2);\n"];

/// Executes a statement that takes a lock. Gives an attempt up after a second: other statements would queue behind it.
pub(super) async fn locked(owner: &Client, attempts: usize, statement: &str) -> Result<(), Error> {
    owner.batch_execute("SET lock_timeout = '1s'").await?;
    let mut attempt = 1;
    loop {
        match owner.batch_execute(statement).await {
            Err(_) if attempt < attempts => attempt += 1,
            ended => return Ok(ended?),
        }
        owner.batch_execute("ROLLBACK").await?;
    }
}

/// Locks the table of keys for this long, and sends a server more calls than it has connections for. Returns whether all connections of a
/// server's pool waited for the lock; otherwise it was not granted, or the clients had too few calls under way.
pub(super) async fn fill_pool(stage: &Stage, hold: Duration) -> Result<bool, Error> {
    let (holder, witness) = (stage.database.connect().await?, stage.database.connect().await?);
    locked(&holder, 1, LOCK_KEYS).await?;
    // The calls end when the lock is released, or soon after.
    let calls = burst(stage, 2 * POOL);
    let released = time::Instant::now() + hold;
    let mut is_filled = false;
    while time::Instant::now() < released {
        is_filled |= is_full(stage, &witness).await?;
        time::sleep(LOOK).await;
    }
    holder.batch_execute("ROLLBACK").await?;
    calls.join_all().await;
    Ok(is_filled)
}

/// Whether as many connections of one server wait for a lock as its pool has. Behind PgBouncer it is not known whose
/// they are.
async fn is_full(stage: &Stage, witness: &Client) -> Result<bool, Error> {
    let ports: Vec<_> = match &stage.behind_bouncer {
        Some(behind) => vec![behind.ports()],
        None => stage.ways.iter().map(|way| way.ports()).collect(),
    };
    let mut waiting = HashMap::<usize, usize>::new();
    for row in witness.query(WAITING, &[]).await? {
        let port: i32 = row.try_get(0)?;
        let slot = ports.iter().position(|ports| u16::try_from(port).is_ok_and(|port| ports.contains(&port)));
        *waiting.entry(slot.unwrap_or(usize::MAX)).or_default() += 1;
    }
    Ok((0..ports.len()).any(|slot| waiting.get(&slot).is_some_and(|waiting| *waiting >= POOL)))
}

/// Locks the outbox for this long. Returns whether the lock was granted in time.
pub(super) async fn lock_outbox(stage: &Stage, hold: Duration) -> Result<bool, Error> {
    let owner = stage.database.connect().await?;
    let is_granted = locked(&owner, ATTEMPTS, LOCK_OUTBOX).await.is_ok();
    if is_granted {
        linger(stage, hold).await;
    }
    owner.batch_execute("ROLLBACK").await?;
    Ok(is_granted)
}

/// Makes the look-up of statuses slow for this long.
pub(super) async fn slow_look_up(stage: &Stage, hold: Duration) -> Result<(), Error> {
    let owner = stage.database.connect().await?;
    let definition: String = owner.query_one(DEFINITION, &[]).await?.try_get(0)?;
    let [body, slow_body] = BODY;
    if !definition.contains(body) {
        return Err("the look-up of statuses is not the function that the harness knows".into());
    }
    owner.batch_execute(&definition.replacen(body, slow_body, 1)).await?;
    linger(stage, hold).await;
    Ok(owner.batch_execute(&definition).await?)
}

/// Retries calls, whose replays look for statuses.
async fn linger(stage: &Stage, hold: Duration) {
    let calls = burst(stage, POOL);
    time::sleep(hold).await;
    calls.join_all().await;
}
