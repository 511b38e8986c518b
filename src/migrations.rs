//! The table `tenant.idempotency_keys` with its row-level security and its functions.
//!
//! Run from here, or as plain SQL: the files are in the crate's `migrations/core/`, to be run in their order as the role that
//! is to own the table. They fit any database of PostgreSQL 14 or later, and adopt a table that FUN-15's own migrations made.
//!
//! ```no_run
//! use tonic_idempotency::{
//!     migrations,
//!     store::{ResourceType, ResourceTypes},
//! };
//!
//! # async fn migrate() -> Result<(), Box<dyn std::error::Error>> {
//! let (mut owner, connection) = tokio_postgres::connect("host=localhost user=owner", tokio_postgres::NoTls).await?;
//! tokio::spawn(connection);
//!
//! migrations::run(&mut owner).await?;
//! let types = ResourceTypes::new([ResourceType::new("invoice", "invoice_id", "billing.invoices")]);
//! migrations::register(&mut owner, &types).await?;
//! migrations::grant(&owner, "my_api_role").await?;
//! # Ok(())
//! # }
//! ```

use std::{error::Error, time::Duration};

use tokio_postgres::{Client, error::SqlState, types::Type};

use crate::store::{ResourceType, ResourceTypes};

mod embedded {
    refinery::embed_migrations!("migrations/core");
}

/// Where refinery records what it has run, beside the application's own history.
const HISTORY: &str = "idempotency_core_migrations";

/// Lets one server register at a time, while others read.
const LOCK_RESOURCE_TYPES: &str = "LOCK TABLE tenant.idempotency_resource_types IN SHARE ROW EXCLUSIVE MODE";

/// Registers the types that are not registered yet, or not with this column and this table.
const REGISTER: &str = "
    SELECT tenant.idempotency_register_resource(t.name, t.resource_column, t.resource_table)
    FROM unnest($1::text[], $2::text[]::name[], $3::text[]::regclass[]) AS t (name, resource_column, resource_table)
    WHERE NOT EXISTS (
        SELECT FROM tenant.idempotency_resource_types r
        JOIN pg_attribute a ON a.attrelid = 'tenant.idempotency_keys'::regclass AND a.attname = r.resource_column
        JOIN pg_constraint c ON c.conrelid = a.attrelid AND c.contype = 'f' AND c.conkey = ARRAY[a.attnum]
        WHERE r.name = t.name AND r.resource_column = t.resource_column AND c.confrelid = t.resource_table
    )";

/// How often to try while others are first, and the pauses between the attempts.
const ATTEMPTS: u32 = 20;
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Makes the table, or brings it up to date. Doing so again changes nothing.
///
/// Servers may start together. Each migration and its record in the history are one transaction, so that one server is first
/// with it, and the others find it done on their next attempt. (No lock: one that outlives a transaction does not work
/// through PgBouncer.)
///
/// # Errors
///
/// [`MigrationError`] where the database refuses, or has migrations that are not this crate's.
///
/// # Cancel safety
///
/// Each migration is a transaction. Dropped, it stops after some of them.
pub async fn run(client: &mut Client) -> Result<(), MigrationError> {
    let mut runner = embedded::migrations::runner();
    runner.set_migration_table_name(HISTORY);
    let mut pause = FIRST_PAUSE;
    for _ in 1..ATTEMPTS {
        match runner.run_async(client).await {
            Ok(_) => return Ok(()),
            Err(error) if was_first(&error) => tokio::time::sleep(pause).await,
            Err(error) => return Err(error.into()),
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    runner.run_async(client).await?;
    Ok(())
}

/// Registers resource types: for each, adds its column to the table, the foreign key, and the check that at most one such
/// column is set. Needs the resources' own tables. Registers all of them or none.
///
/// A type that is registered already is left alone. To register a new one locks the table of keys while PostgreSQL checks its
/// rows. Types that are no longer listed stay registered.
///
/// # Errors
///
/// [`MigrationError`] where the database refuses: a table does not exist, or two types share a column.
///
/// # Cancel safety
///
/// Dropped, it registers either all types or none.
pub async fn register(client: &mut Client, types: &ResourceTypes) -> Result<(), MigrationError> {
    let names: Vec<_> = types.iter().map(ResourceType::name).collect();
    let columns: Vec<_> = types.iter().map(ResourceType::column).collect();
    let tables: Vec<_> = types.iter().map(ResourceType::table).collect();
    let transaction = client.transaction().await?;
    transaction.batch_execute(LOCK_RESOURCE_TYPES).await?;
    transaction
        .query_typed(REGISTER, &[(&names, Type::TEXT_ARRAY), (&columns, Type::TEXT_ARRAY), (&tables, Type::TEXT_ARRAY)])
        .await?;
    transaction.commit().await?;
    Ok(())
}

/// Grants a role what the store needs, and no more: the role as which the API logs in, neither a superuser nor the owner of
/// the table.
///
/// # Errors
///
/// [`MigrationError`] where the database refuses.
pub async fn grant(client: &Client, role: &str) -> Result<(), MigrationError> {
    client.query_typed("SELECT tenant.idempotency_grant($1)", &[(&role, Type::NAME)]).await?;
    Ok(())
}

/// Whether another server may have been first.
fn was_first(error: &refinery::Error) -> bool {
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(code) = cause.downcast_ref::<tokio_postgres::Error>().and_then(tokio_postgres::Error::code) {
            return [
                SqlState::UNIQUE_VIOLATION,
                SqlState::DUPLICATE_COLUMN,
                SqlState::DUPLICATE_FUNCTION,
                SqlState::DUPLICATE_OBJECT,
                SqlState::DUPLICATE_SCHEMA,
                SqlState::DUPLICATE_TABLE,
                SqlState::T_R_DEADLOCK_DETECTED,
                SqlState::T_R_SERIALIZATION_FAILURE,
                // "tuple concurrently updated"
                SqlState::INTERNAL_ERROR,
            ]
            .contains(code);
        }
        source = cause.source();
    }
    false
}

/// Migrations that did not run.
#[derive(Debug, thiserror::Error)]
#[error("the database could not be migrated")]
pub struct MigrationError {
    source: Box<dyn Error + Send + Sync>,
}

impl From<refinery::Error> for MigrationError {
    fn from(error: refinery::Error) -> Self {
        Self { source: error.into() }
    }
}

impl From<tokio_postgres::Error> for MigrationError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self { source: error.into() }
    }
}
