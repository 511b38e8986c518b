//! Promises broken on purpose, behind the back of the service, to see that the auditor notices.

use std::collections::BTreeSet;

use tokio_postgres::Client;

use crate::{
    error::Error,
    named::{Named, SomeOf},
    operation::{Kind, Operation, User, Variant},
};

/// The record is gone: the next retry executes it once more.
const FORGET: &str = "DELETE FROM tenant.idempotency_keys WHERE idempotency_key = $1";

/// The record is as if somebody were at it, and for long.
const HOLD: &str = "UPDATE tenant.idempotency_keys
    SET response_bytes = NULL, project_id = NULL, token = gen_random_uuid(), lease_expires = now() + interval '1 hour'
    WHERE idempotency_key = $1";

/// What was created is gone.
const LOSE: &str = "DELETE FROM tenant.projects WHERE name = $1";

/// A refused request was executed.
const EXECUTE: &str = "INSERT INTO tenant.projects (organization_id, cluster_id, name)
    SELECT organization_id, cluster_id, $1 FROM tenant.projects LIMIT 1";

/// The records of two operations have each other's response.
const SWAP: &str = "UPDATE tenant.idempotency_keys k SET response_bytes = other.response_bytes
    FROM tenant.idempotency_keys other
    WHERE (k.idempotency_key, other.idempotency_key) IN (($1, $2), ($2, $1))";

/// What is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Deed {
    Execute,
    Forget,
    Hold,
    Lose,
    Swap,
}

impl Named for Deed {
    const ALL: &'static [Self] = &[Self::Execute, Self::Forget, Self::Hold, Self::Lose, Self::Swap];

    fn name(self) -> &'static str {
        match self {
            Self::Execute => "execute",
            Self::Forget => "forget",
            Self::Hold => "hold",
            Self::Lose => "lose",
            Self::Swap => "swap",
        }
    }
}

/// Which promises are broken.
pub(crate) type Sabotage = SomeOf<Deed>;

/// Breaks each of them once, when all faults are over and before the last retries, for another operation that was
/// `acknowledged`.
///
/// # Errors
///
/// The database refuses, or there are too few operations.
pub(crate) async fn sabotage(
    deeds: &Sabotage,
    client: &Client,
    acknowledged: &BTreeSet<u32>,
    operations: &[Operation],
) -> Result<(), Error> {
    let suitable = |operation: &&Operation| operation.kind == Kind::Project && operation.user == User::Alice;
    let acknowledged = acknowledged.iter().filter_map(|number| operations.get(*number as usize));
    let mut victims = acknowledged.filter(suitable);
    let mut next = || victims.next().ok_or("too few operations were acknowledged to be sabotaged");
    for deed in deeds.each() {
        let victim = next()?;
        let changed = match deed {
            Deed::Execute => client.execute(EXECUTE, &[&victim.name(Variant::Changed)]).await?,
            Deed::Forget => client.execute(FORGET, &[&victim.key]).await?,
            Deed::Hold => client.execute(HOLD, &[&victim.key]).await?,
            Deed::Lose => client.execute(LOSE, &[&victim.name(Variant::Asked)]).await?,
            Deed::Swap => client.execute(SWAP, &[&victim.key, &next()?.key]).await? / 2,
        };
        if changed != 1 {
            return Err(format!("the sabotage {} met {changed} rows", deed.name()).into());
        }
    }
    Ok(())
}
