//! Breaks promises on purpose, behind the back of the service, to test the auditor.

use clap::ValueEnum;
use tokio_postgres::Client;

use crate::{
    error::Error,
    journal::{Journal, UnprotectedRun},
    named::SomeOf,
    operation::{Kind, Operation, User, Variant},
};

/// Deletes the record, so that the next retry executes the operation once more.
const FORGET: &str = "DELETE FROM tenant.idempotency_keys WHERE idempotency_key = $1";

/// Turns the record into a reservation with a long lease.
const HOLD: &str = "UPDATE tenant.idempotency_keys
    SET response_bytes = NULL, project_id = NULL, token = gen_random_uuid(), lease_expires = now() + interval '1 hour'
    WHERE idempotency_key = $1";

/// Deletes what the operation created.
const LOSE: &str = "DELETE FROM tenant.projects WHERE name = $1";

/// Executes a request that was refused.
const EXECUTE: &str = "INSERT INTO tenant.projects (organization_id, cluster_id, name)
    SELECT organization_id, cluster_id, $1 FROM tenant.projects LIMIT 1";

/// Swaps the stored responses of two operations.
const SWAP: &str = "UPDATE tenant.idempotency_keys k SET response_bytes = other.response_bytes
    FROM tenant.idempotency_keys other
    WHERE (k.idempotency_key, other.idempotency_key) IN (($1, $2), ($2, $1))";

/// A way to break a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Deed {
    Execute,
    Forget,
    Hold,
    Lose,
    Swap,
    Unprotect,
}

/// The promises to break.
pub(crate) type Sabotage = SomeOf<Deed>;

/// Breaks each promise once, after all faults and before the last retries, each for a different operation
/// that was acknowledged.
pub(crate) async fn sabotage(
    deeds: &Sabotage,
    client: &Client,
    journal: &Journal,
    operations: &[Operation],
) -> Result<(), Error> {
    let suitable = |operation: &&Operation| operation.kind == Kind::Project && operation.user == User::Alice;
    let acknowledged = journal.entries().acknowledged();
    let acknowledged = acknowledged.iter().filter_map(|number| operations.get(*number as usize));
    let mut victims = acknowledged.filter(suitable);
    let mut next = || victims.next().ok_or("too few operations were acknowledged for the sabotage");
    for deed in &deeds.0 {
        let victim = next()?;
        let changed = match deed {
            Deed::Execute => client.execute(EXECUTE, &[&victim.name(Variant::Changed)]).await?,
            Deed::Forget => client.execute(FORGET, &[&victim.key]).await?,
            Deed::Hold => client.execute(HOLD, &[&victim.key]).await?,
            Deed::Lose => client.execute(LOSE, &[&victim.name(Variant::Asked)]).await?,
            Deed::Unprotect => unprotect(journal, victim),
            Deed::Swap => client.execute(SWAP, &[&victim.key, &next()?.key]).await? / 2,
        };
        if changed != 1 {
            return Err(format!("the sabotage {deed:?} changed {changed} rows instead of 1").into());
        }
    }
    Ok(())
}

/// Reports a run of an operation without protection, at a time when nothing was wrong. Returns the number of reports.
fn unprotect(journal: &Journal, victim: &Operation) -> u64 {
    let ran = journal.now();
    let mut entries = journal.entries();
    let Some(server) = entries.attempts.first().map(|attempt| attempt.server) else { return 0 };
    let (key, cause) = (Some(victim.key), "sabotage".to_owned());
    entries.unprotected.push(UnprotectedRun { server, key, cause, asked: ran, ran });
    1
}
