//! Makes the outbox slow, and with it the status of replays.

use std::time::Duration;

use tokio::time;
use tokio_postgres::Client;

use super::{burst::burst, stage::Stage};
use crate::{error::Error, fault::FaultKind, journal::Whom, schedule::Slowness};

/// The number of calls that look for a status meanwhile.
const BURST: usize = 16;

/// The most attempts to lock the table: a paused server may hold a conflicting lock for a lease.
const ATTEMPTS: usize = 10;

/// Takes the lock, or gives up after a second: other statements would queue behind it.
const LOCK: &str = "SET lock_timeout = '1s'; BEGIN; LOCK TABLE authz.outbox IN ACCESS EXCLUSIVE MODE";

/// Selects the definition of the function that looks a status up.
const DEFINITION: &str =
    "SELECT pg_catalog.pg_get_functiondef('tenant.idempotency_resource_status(text, text)'::regprocedure)";

/// The start of its body, and the same with a look-up that takes longer than the store's timeout leaves for it.
const BODY: [&str; 2] = ["\nBEGIN\n", "\nBEGIN\n    PERFORM pg_catalog.pg_sleep(2);\n"];

/// Makes the outbox slow for this long.
///
/// # Errors
///
/// The look-up cannot be changed, or not be changed back.
pub(super) async fn happen(stage: &Stage, how: Slowness, hold: Duration) -> Result<(), Error> {
    let begun = stage.journal.now();
    let owner = stage.database.connect().await?;
    let kind = match how {
        Slowness::Asleep => {
            sleep(&owner, stage, hold).await?;
            FaultKind::OutboxAsleep
        }
        Slowness::Locked => {
            if !locked(&owner).await? {
                return Ok(());
            }
            linger(stage, hold).await;
            owner.batch_execute("ROLLBACK").await?;
            FaultKind::OutboxLocked
        }
    };
    stage.journal.fault(kind, Whom::All, begun);
    Ok(())
}

/// Locks the table. Returns whether the lock was granted in time.
async fn locked(owner: &Client) -> Result<bool, Error> {
    for _ in 0..ATTEMPTS {
        if owner.batch_execute(LOCK).await.is_ok() {
            return Ok(true);
        }
        owner.batch_execute("ROLLBACK").await?;
    }
    Ok(false)
}

async fn sleep(owner: &Client, stage: &Stage, hold: Duration) -> Result<(), Error> {
    let definition: String = owner.query_one(DEFINITION, &[]).await?.try_get(0)?;
    let [body, slow_body] = BODY;
    if !definition.contains(body) {
        return Err("the look-up of statuses is not the function that the harness knows".into());
    }
    owner.batch_execute(&definition.replacen(body, slow_body, 1)).await?;
    linger(stage, hold).await;
    owner.batch_execute(&definition).await?;
    Ok(())
}

/// Retries calls, whose replays look for statuses.
async fn linger(stage: &Stage, hold: Duration) {
    let mut calls = burst(stage, BURST);
    time::sleep(hold).await;
    while calls.join_next().await.is_some() {}
}
