//! Migrations of the table `tenant.idempotency_keys`, its row-level security and its functions.
//!
//! Run them from here, or as plain SQL: the files are in `migrations/core/` of the crate, and have to be run in order.
//! In either case, the role that runs them owns the table. They need PostgreSQL 14 or later, and adopt a table made by
//! the Go interceptor's migrations.
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

/// The table in which refinery records the migrations that it has run, apart from the application's own history.
const HISTORY: &str = "idempotency_core_migrations";

/// Allows one server at a time to register types. Other servers can still read.
const LOCK_RESOURCE_TYPES: &str = "LOCK TABLE tenant.idempotency_resource_types IN SHARE ROW EXCLUSIVE MODE";

/// Registers the types that are not registered yet with this column and this table.
const REGISTER: &str = "
    SELECT tenant.idempotency_register_resource(t.name, t.resource_column, t.resource_table)
    FROM unnest($1::text[], $2::text[]::name[], $3::text[]::regclass[]) AS t (name, resource_column, resource_table)
    WHERE NOT EXISTS (
        SELECT FROM tenant.idempotency_resource_types r
        JOIN pg_attribute a ON a.attrelid = 'tenant.idempotency_keys'::regclass AND a.attname = r.resource_column
        JOIN pg_constraint c ON c.conrelid = a.attrelid AND c.contype = 'f' AND c.conkey = ARRAY[a.attnum]
        WHERE r.name = t.name AND r.resource_column = t.resource_column AND c.confrelid = t.resource_table
    )";

/// The number of attempts while other servers are first, and the first and the longest pause between two attempts.
const ATTEMPTS: u32 = 20;
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Creates the table, or brings it up to date. Idempotent.
///
/// Several servers may run it at once. Each migration and its record in the history are one transaction, so that one
/// server is first with it, and the others find it done on their next attempt. (It takes no lock: one that outlives a
/// transaction does not work through PgBouncer.)
///
/// # Errors
///
/// [`MigrationError`] if the database refuses, or if its history contains migrations that this crate does not.
///
/// # Cancel safety
///
/// Each migration is one transaction. If the future is dropped, some migrations may have run, and the others not.
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

/// Registers resource types: adds the column of each to the table, its foreign key, and the check that at most one such
/// column is set. The tables of the resources have to exist. Registers either all types or none.
///
/// A registered type is not changed. A new type locks the table of keys while PostgreSQL checks its rows. Types that
/// are no longer listed stay registered.
///
/// # Errors
///
/// [`MigrationError`] if the database refuses: a table does not exist, or two types share a column.
///
/// # Cancel safety
///
/// If the future is dropped, either all types are registered or none.
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

/// Grants a role the privileges that the store needs, and no others. The role is the one that the API logs in as:
/// neither a superuser nor the owner of the table. Idempotent.
///
/// # Errors
///
/// [`MigrationError`] if the database refuses.
///
/// # Cancel safety
///
/// If the future is dropped, either all privileges are granted or none.
pub async fn grant(client: &Client, role: &str) -> Result<(), MigrationError> {
    client.query_typed("SELECT tenant.idempotency_grant($1)", &[(&role, Type::NAME)]).await?;
    Ok(())
}

/// Returns whether the error may mean that another server was first.
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

/// The error of failed migrations, of a registration or of a grant. Its source is the database's error.
#[derive(Debug, thiserror::Error)]
#[error("the migrations of the idempotency store failed")]
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
