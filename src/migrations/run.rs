//! Migrations, registrations and grants through tokio-postgres.

use tokio_postgres::{Client, error::SqlState, types::Type};

use super::{Migration, MigrationError, all, grant_sql, limits_sql, retries::Retries, validation_sql};
use crate::store::{ResourceTypes, Schema, literal};

/// Overrides what a role, a database or a pooler may have set, for the transaction of the statements that follow. It has to come first: a
/// limit counts from the beginning of a statement, and a mode is set before the first query.
const SETTINGS: &str =
    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE, NOT DEFERRABLE; SET LOCAL statement_timeout = 0; ";

const ADAPT: &str = "SELECT tenant.idempotency_adapt()";
const REGISTER: &str = "SELECT tenant.idempotency_register_resource($1, $2, $3::pg_catalog.regclass)";
const GRANT_OPERATOR: &str = "SELECT tenant.idempotency_grant_operator";

/// The number of attempts while other servers are first.
const ATTEMPTS: u32 = 20;

/// The number of attempts to register types while other transactions lock the tables. Each waits half a second for a
/// lock, and calls wait behind it.
const LOCK_ATTEMPTS: u32 = 6;

/// Creates the schema and the table, or brings them up to date. Idempotent: a migration that the database has changes and locks
/// nothing, whether it was run from here or by the application's own runner. Migrations of a newer version of the crate stay.
///
/// Several servers may run it at once, also through PgBouncer. Each migration and its record are one transaction. One server is
/// first with it; the others wait for its end, and find it done. After an upgrade of the server to PostgreSQL 18, makes use of its
/// `uuidv7()`; after a change of the table's owner, adapts the objects that were made for the old one. An object that its role may not
/// change stays, with a warning by the database, and the store's `verify` reports it.
///
/// # Errors
///
/// [`MigrationError`] if the database refuses, if it has one of the migrations with other SQL, or if the server is older than
/// PostgreSQL 14.
///
/// # Cancel safety
///
/// Each migration is one transaction. If the future is dropped, some migrations may have run, and the others not.
pub async fn run(client: &mut Client, schema: &Schema) -> Result<(), MigrationError> {
    let (migrations, adapt) = (all(schema), schema.apply(ADAPT));
    for sql in migrations.iter().map(Migration::sql).chain([&*adapt]) {
        execute(client, sql).await?;
    }
    Ok(())
}

/// Makes the table and the functions that a limit of one user's records needs: the pack of [`limits_sql`]. Run it after [`run`], and before
/// [`grant`], if a store has such a limit. Idempotent, as [`run`].
///
/// # Errors
///
/// [`MigrationError`], as for [`run`].
///
/// # Cancel safety
///
/// One transaction: if the future is dropped, it has run or not.
pub async fn limits(client: &Client, schema: &Schema) -> Result<(), MigrationError> {
    execute(client, &limits_sql(schema)).await
}

/// Registers resource types: adds the column of each to the table, its foreign key, its index, and the check that at most
/// one such column is set. The tables of the resources have to exist. Registers either all types or none.
///
/// A registered type changes nothing and locks nothing. A new type locks the table of keys and the resource's table for a
/// moment, and waits at most half a second for that, since every call would wait behind it; after six such attempts it
/// gives up. Then the constraints are validated while calls go on. Types that are no longer listed stay registered.
///
/// The index of a new type is built while calls wait. If the table of keys is large, create the columns and the indexes
/// first: `docs/database.md` has the statements.
///
/// # Errors
///
/// [`MigrationError`] if the database refuses: a table does not exist, two types share a column, or a transaction on one
/// of the tables does not end.
///
/// # Cancel safety
///
/// If the future is dropped, either all types are registered or none; their constraints may not be validated yet.
pub async fn register(client: &mut Client, schema: &Schema, types: &ResourceTypes) -> Result<(), MigrationError> {
    let mut retries = Retries::new(LOCK_ATTEMPTS);
    loop {
        match register_once(client, schema, types).await {
            Err(error) if is_locked(&error) && retries.again().await => {}
            ended => return Ok(ended?),
        }
    }
}

async fn register_once(
    client: &mut Client,
    schema: &Schema,
    types: &ResourceTypes,
) -> Result<(), tokio_postgres::Error> {
    let register = schema.apply(REGISTER);
    let transaction = client.transaction().await?;
    transaction.batch_execute(SETTINGS).await?;
    for (known, table) in types.iter().filter_map(|known| Some((known, known.table()?))) {
        let (name, column) = (known.name(), known.column());
        transaction.query_typed(&register, &[(&name, Type::TEXT), (&column, Type::NAME), (&table, Type::TEXT)]).await?;
    }
    transaction.commit().await?;
    client.batch_execute(&format!("{SETTINGS}{}", validation_sql(schema))).await
}

/// Grants a role the privileges that the store needs, and no others. The role is the one that the API logs in as:
/// neither a superuser nor the owner of the table. Idempotent: a role that has the privileges changes nothing. Several
/// servers may grant at once.
///
/// # Errors
///
/// [`MigrationError`] if the database refuses, or if row-level security does not apply to the role: it is a superuser, or
/// has `BYPASSRLS`, or if this role may not grant it everything: the error says which role may. The table's owner is only warned of, by
/// the database.
///
/// # Cancel safety
///
/// If the future is dropped, either all privileges are granted or none.
pub async fn grant(client: &Client, schema: &Schema, role: &str) -> Result<(), MigrationError> {
    execute(client, &grant_sql(schema, role)).await
}

/// Grants an operator's role the functions that find a stuck key and release it, erase what records hold, and show how the tables are:
/// `tenant.idempotency_list`, `tenant.idempotency_inspect`, `tenant.idempotency_operation_key`, `tenant.idempotency_operator_release`,
/// `tenant.idempotency_evict`, `tenant.idempotency_erase` and `tenant.idempotency_overview`; and no right on a table. Idempotent: a role that
/// has them changes nothing. Several servers may grant at once. `docs/operations.md` shows the functions.
///
/// # Errors
///
/// [`MigrationError`] if the database refuses, or if this role may not grant it.
///
/// # Cancel safety
///
/// As [`grant`].
pub async fn grant_operator(client: &Client, schema: &Schema, role: &str) -> Result<(), MigrationError> {
    execute(client, &format!("{}({});", schema.apply(GRANT_OPERATOR), literal(role))).await
}

/// Executes statements as one transaction, again while other servers are first.
pub(super) async fn execute(client: &Client, sql: &str) -> Result<(), MigrationError> {
    let sql = format!("{SETTINGS}{sql}");
    let mut retries = Retries::new(ATTEMPTS);
    while let Err(error) = client.batch_execute(&sql).await {
        if !(was_first(&error) && retries.again().await) {
            return Err(error.into());
        }
    }
    Ok(())
}

/// Returns whether the error may mean that another server was first.
fn was_first(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|code| {
        [
            SqlState::UNIQUE_VIOLATION,
            SqlState::DUPLICATE_COLUMN,
            SqlState::DUPLICATE_FUNCTION,
            SqlState::DUPLICATE_OBJECT,
            SqlState::DUPLICATE_SCHEMA,
            SqlState::DUPLICATE_TABLE,
            SqlState::LOCK_NOT_AVAILABLE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::T_R_SERIALIZATION_FAILURE,
            // "tuple concurrently updated"
            SqlState::INTERNAL_ERROR,
        ]
        .contains(code)
    })
}

/// Returns whether the error means that another transaction holds a lock.
fn is_locked(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|code| [SqlState::LOCK_NOT_AVAILABLE, SqlState::T_R_DEADLOCK_DETECTED].contains(code))
}
