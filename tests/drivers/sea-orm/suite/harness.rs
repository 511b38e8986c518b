//! Transactions without a call, and a table of marks.

use driver_suite::pool;
use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, DbErr, Statement};
use tokio_postgres::Client;
use tonic_idempotency::store::TransactionErrorKind;
use tonic_idempotency_sea_orm::{OwnedTransaction, Transaction, TransactionError};
use tonic_idempotency_tests::Database;

use crate::stack::SeaOrmStack;

/// Connections of the API's role.
pub(crate) fn connect(database: &Database) -> DatabaseConnection {
    pool::<SeaOrmStack>(database, 2).0
}

/// A database with an empty table of marks.
pub(crate) async fn marked() -> (Database, Client, DatabaseConnection) {
    let database = Database::new().await;
    let owner = database.owner().await;
    let make = "CREATE TABLE public.marks (mark integer NOT NULL UNIQUE); GRANT ALL ON public.marks TO PUBLIC";
    owner.batch_execute(make).await.expect("the table");
    let connection = connect(&database);
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
