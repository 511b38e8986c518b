//! Migrations of the table of keys, its row-level security and its functions. A [`Schema`] says their names; by default
//! the table is `tenant.idempotency_keys`.
//!
//! Run them from here, or as plain SQL: the files are in `migrations/core/` of the crate, with the default names, and have to
//! be run in order; [`sql`] returns them with other names.
//! In either case, the role that runs them owns the table. They need PostgreSQL 14 or later, and adopt a table made by
//! the Go interceptor's migrations.
//!
//! ```no_run
//! use tonic_idempotency::{
//!     migrations,
//!     store::{ResourceType, ResourceTypes, Schema},
//! };
//!
//! # async fn migrate() -> Result<(), Box<dyn std::error::Error>> {
//! let (mut owner, connection) = tokio_postgres::connect("host=localhost user=owner", tokio_postgres::NoTls).await?;
//! tokio::spawn(connection);
//!
//! let schema = Schema::default();
//! migrations::run(&mut owner, &schema).await?;
//! let types = ResourceTypes::new([ResourceType::new("invoice", "invoice_id", "billing.invoices")]);
//! migrations::register(&mut owner, &schema, &types).await?;
//! migrations::grant(&owner, &schema, "my_api_role").await?;
//! # Ok(())
//! # }
//! ```

use std::{borrow::Cow, error::Error, time::Duration};

use refinery::{Migration, Runner};
use tokio_postgres::{Client, error::SqlState, types::Type};

use crate::store::{ResourceTypes, Schema};

/// The table in which refinery records the migrations that it has run, apart from the application's own history. For the
/// default names it is where the role's search_path says; for others in the schema itself, as each has its own history.
const HISTORY: &str = "idempotency_core_migrations";

/// The files in `migrations/core/`, in their order.
const FILES: [(&str, &str); 7] = [
    ("V1__idempotency_keys", include_str!("../migrations/core/V1__idempotency_keys.sql")),
    ("V2__protocol", include_str!("../migrations/core/V2__protocol.sql")),
    ("V3__resource_types", include_str!("../migrations/core/V3__resource_types.sql")),
    ("V4__transactions", include_str!("../migrations/core/V4__transactions.sql")),
    ("V5__recovery", include_str!("../migrations/core/V5__recovery.sql")),
    ("V6__rights", include_str!("../migrations/core/V6__rights.sql")),
    ("V7__operators", include_str!("../migrations/core/V7__operators.sql")),
];

const CREATE_SCHEMA: &str = "CREATE SCHEMA IF NOT EXISTS tenant";
const REGISTER: &str = "SELECT tenant.idempotency_register_resource($1, $2, $3::pg_catalog.regclass)";
const VALIDATE: &str = "SELECT tenant.idempotency_validate()";
const GRANT: &str = "SELECT tenant.idempotency_grant($1)";
const GRANT_OPERATOR: &str = "SELECT tenant.idempotency_grant_operator($1)";

/// The number of attempts while other servers are first.
const ATTEMPTS: u32 = 20;

/// The number of attempts to register types while other transactions lock the tables. Each waits half a second for a
/// lock, and calls wait behind it.
const LOCK_ATTEMPTS: u32 = 6;

/// The first and the longest pause between two attempts.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Creates the schema and the table, or brings them up to date. Idempotent.
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
pub async fn run(client: &mut Client, schema: &Schema) -> Result<(), MigrationError> {
    let runner = runner(schema)?;
    let mut attempts = Attempts::new(ATTEMPTS);
    loop {
        match run_once(client, schema, &runner).await {
            Err(error) if was_first(&error) && attempts.again().await => {}
            ended => return ended,
        }
    }
}

async fn run_once(client: &mut Client, schema: &Schema, runner: &Runner) -> Result<(), MigrationError> {
    if *schema != Schema::default() {
        // The history is in it.
        client.batch_execute(&schema.apply(CREATE_SCHEMA)).await?;
    }
    runner.run_async(client).await?;
    Ok(())
}

fn runner(schema: &Schema) -> Result<Runner, MigrationError> {
    let migrations = sql(schema).map(|(name, sql)| Migration::unapplied(name, &sql));
    let mut runner = Runner::new(&migrations.collect::<Result<Vec<_>, _>>()?);
    let is_default = *schema == Schema::default();
    runner.set_migration_table_name(if is_default { HISTORY.to_owned() } else { schema.table_of(HISTORY) });
    Ok(runner)
}

/// Returns the migrations with the names of this schema, in their order, for the application's own migration tool: the name of
/// each, such as `V1__idempotency_keys`, and its SQL.
pub fn sql(schema: &Schema) -> impl Iterator<Item = (&'static str, Cow<'static, str>)> {
    FILES.into_iter().map(|(name, sql)| (name, schema.apply(sql)))
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
    let mut attempts = Attempts::new(LOCK_ATTEMPTS);
    loop {
        match register_once(client, schema, types).await {
            Err(error) if is_locked(&error) && attempts.again().await => {}
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
    for known in types.iter() {
        let (name, column, table) = (known.name(), known.column(), known.table());
        transaction.query_typed(&register, &[(&name, Type::TEXT), (&column, Type::NAME), (&table, Type::TEXT)]).await?;
    }
    transaction.commit().await?;
    client.query_typed(&schema.apply(VALIDATE), &[]).await?;
    Ok(())
}

/// Grants a role the privileges that the store needs, and no others. The role is the one that the API logs in as:
/// neither a superuser nor the owner of the table. Idempotent: a role that has the privileges changes nothing. Several
/// servers may grant at once.
///
/// # Errors
///
/// [`MigrationError`] if the database refuses, or if row-level security does not apply to the role: it is a superuser, or
/// has `BYPASSRLS`. The table's owner is only warned of, by the database.
///
/// # Cancel safety
///
/// If the future is dropped, either all privileges are granted or none.
pub async fn grant(client: &Client, schema: &Schema, role: &str) -> Result<(), MigrationError> {
    grant_by(client, &schema.apply(GRANT), role).await
}

/// Grants a role of the people who operate the service what they need to find a key that is stuck and to release it: the
/// functions `tenant.idempotency_stuck`, `tenant.idempotency_inspect` and `tenant.idempotency_operator_release`, and no right on a
/// table. Idempotent: a role that has them changes nothing. Several servers may grant at once. `docs/operations.md` shows the functions.
///
/// # Errors
///
/// [`MigrationError`] if the database refuses.
///
/// # Cancel safety
///
/// As [`grant`].
pub async fn grant_operator(client: &Client, schema: &Schema, role: &str) -> Result<(), MigrationError> {
    grant_by(client, &schema.apply(GRANT_OPERATOR), role).await
}

async fn grant_by(client: &Client, grant: &str, role: &str) -> Result<(), MigrationError> {
    let mut attempts = Attempts::new(ATTEMPTS);
    loop {
        match client.query_typed(grant, &[(&role, Type::NAME)]).await {
            Err(error) if was_first(&error) && attempts.again().await => {}
            ended => return Ok(ended.map(|_| ())?),
        }
    }
}

/// The attempts that are left, and the pause before the next one.
struct Attempts {
    left: u32,
    pause: Duration,
}

impl Attempts {
    fn new(attempts: u32) -> Self {
        Self { left: attempts - 1, pause: FIRST_PAUSE }
    }

    /// Waits for the next attempt. Returns whether there is one.
    async fn again(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        true
    }
}

/// Returns whether the error may mean that another server was first.
fn was_first(error: &(dyn Error + 'static)) -> bool {
    sql_state(error).is_some_and(|code| {
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
fn is_locked(error: &(dyn Error + 'static)) -> bool {
    sql_state(error).is_some_and(|code| [SqlState::LOCK_NOT_AVAILABLE, SqlState::T_R_DEADLOCK_DETECTED].contains(code))
}

/// Returns the SQLSTATE of an error or of one of its causes.
fn sql_state<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a SqlState> {
    let mut causes = std::iter::successors(Some(error), |&error| error.source());
    causes.find_map(|cause| cause.downcast_ref::<tokio_postgres::Error>()?.code())
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A name that [`Schema::apply`] does not know would lead into the default schema.
    #[test]
    fn name_the_schema_in_no_way_that_cannot_be_changed() {
        let other = Schema::new("another").expect("a name");
        for (name, sql) in sql(&other) {
            for line in sql.lines().map(|line| line.split("--").next().unwrap_or_default()) {
                assert!(!line.contains("tenant"), "{name}: {line}");
            }
        }
    }
}
