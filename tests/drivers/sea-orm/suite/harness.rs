//! Connections of sea-orm, and a table of marks.

use std::time::Duration;

use scratch_postgres::PgBouncer;
use sea_orm::{
    ConnectOptions, ConnectionTrait, Database as Connector, DatabaseConnection, DbBackend, DbErr, Statement,
    sqlx::{AssertSqlSafe, Executor as _},
};
use tokio_postgres::Client;
use tonic_idempotency::store::TransactionErrorKind;
use tonic_idempotency_sea_orm::{OwnedTransaction, SeaOrm, SeaOrmStore, Transaction, TransactionError};
use tonic_idempotency_tests::{API_ROLE, Database};

/// A statement that loses a deadlock.
pub(crate) const LOSE: &str = "DO $$ BEGIN RAISE EXCEPTION 'lost' USING ERRCODE = 'deadlock_detected'; END $$";

/// Connections of the API's role.
pub(crate) async fn connect(database: &Database, size: u32) -> DatabaseConnection {
    let mut options = ConnectOptions::new(database.url());
    options.max_connections(size).acquire_timeout(Duration::from_secs(2)).sqlx_logging(false);
    options.map_sqlx_postgres_pool_opts(|options| {
        options.after_connect(|connection, _| {
            let role = AssertSqlSafe(format!("SET ROLE {API_ROLE}"));
            Box::pin(async move { connection.execute(role).await.map(drop) })
        })
    });
    Connector::connect(options).await.expect("a server")
}

/// Connections through PgBouncer in transaction mode.
pub(crate) async fn connect_through(bouncer: &PgBouncer, size: u32) -> DatabaseConnection {
    let mut options = ConnectOptions::new(bouncer.url());
    options.max_connections(size).sqlx_logging(false);
    // As docs/drivers.md says.
    options.map_sqlx_postgres_opts(|options| options.statement_cache_capacity(0).extra_float_digits(None));
    Connector::connect(options).await.expect("a bouncer")
}

/// A store with timeouts that are long enough for a busy machine.
pub(crate) fn patient(database: &DatabaseConnection) -> SeaOrmStore {
    SeaOrmStore::new(SeaOrm::new(database).expect("a PostgreSQL"), organization::resource_types())
        .timeout(Duration::from_secs(60))
        .status_timeout(Duration::from_secs(60))
}

/// A database with an empty table of marks.
pub(crate) async fn marked() -> (Database, Client, DatabaseConnection) {
    let database = Database::new().await;
    let owner = database.owner().await;
    let make = "CREATE TABLE public.marks (mark integer NOT NULL UNIQUE); GRANT ALL ON public.marks TO PUBLIC";
    owner.batch_execute(make).await.expect("the table");
    let connection = connect(&database, 2).await;
    (database, owner, connection)
}

/// A transaction, without a call.
pub(crate) async fn begin(database: &DatabaseConnection) -> OwnedTransaction {
    Transaction::begin(database).await.expect("a transaction")
}

/// Inserts a mark, as a repository does that knows nothing of calls.
pub(crate) async fn mark(to: &impl ConnectionTrait, mark: i32) -> Result<(), DbErr> {
    let insert = "INSERT INTO public.marks (mark) VALUES ($1)";
    to.execute_raw(Statement::from_sql_and_values(DbBackend::Postgres, insert, [mark.into()])).await.map(drop)
}

/// The marks in the table.
pub(crate) async fn marks(owner: &Client) -> Vec<i32> {
    let rows = owner.query("SELECT mark FROM public.marks ORDER BY mark", &[]).await.expect("the marks");
    rows.iter().map(|row| row.get(0)).collect()
}

pub(crate) fn kind<T>(outcome: Result<T, DbErr>) -> Option<TransactionErrorKind> {
    outcome.err().map(|error| TransactionError::from(error).kind())
}
