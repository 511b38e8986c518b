//! A connection from sqlx's pool, with the operations that the store needs: transactions, statements and cancellation.

use std::{
    fmt,
    ops::{Deref, DerefMut},
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use sqlx::{
    AssertSqlSafe, Connection as _, Database, PgConnection, PgPool, Postgres, SqlSafeStr as _, pool::PoolConnection,
};
use sqlx_core::transaction::TransactionManager as _;
use tokio::{runtime::Handle, time::timeout};
use tonic_idempotency::store::driver::{Connection, DriverError, Row as _, Statement, Value, cancel_in_time};
use tracing::{instrument::WithSubscriber as _, subscriber::NoSubscriber};

use crate::{error::explained, literal::with_literals, row::SqlxRow, statement::bound};

type Manager = <Postgres as Database>::TransactionManager;

/// How long a rollback waits for a statement that was given up, before it has the server cancel it.
const PATIENCE: Duration = Duration::from_millis(250);

/// The longest time for the return to the pool, which checks that the connection is alive.
const RETURN: Duration = Duration::from_secs(5);

/// Fails in a transaction that has failed.
const HAS_NOT_FAILED: &str = "SAVEPOINT idempotency_end";

/// Begins a transaction that has failed at once.
const BARRIER: &str = "BEGIN; ROLLBACK TO SAVEPOINT idempotency_call";

/// The SQLSTATE of a statement that needs a transaction, outside of one.
const NO_TRANSACTION: &str = "25P01";

/// A connection of [`Sqlx`](crate::Sqlx).
pub struct SqlxConnection {
    /// `None` once it is closed or given back.
    connection: Option<PoolConnection<Postgres>>,
    /// Makes the connection that cancels a statement.
    pool: PgPool,
    has_statement_cache: bool,
    /// The runtime in which it is given back: the pool needs one for that.
    runtime: Handle,
    begun: Option<ServerTransaction>,
    is_lost: bool,
    /// Whether it must not be used again.
    is_spoilt: bool,
    /// Whether the handler has had it.
    is_handed_out: bool,
    /// Whether a statement of the handler has failed, which may be a prepared one that is stale: sqlx does not tell, and would keep it.
    forgets_statements: bool,
    /// Whether the [barrier](BARRIER) is up.
    is_barred: bool,
}

/// A transaction, as other connections see it.
struct ServerTransaction {
    /// The server process.
    pid: i32,
    /// When it began, in seconds.
    time: f64,
}

impl SqlxConnection {
    /// Inside of a runtime.
    pub(crate) fn new(connection: PoolConnection<Postgres>, pool: PgPool, has_statement_cache: bool) -> Self {
        Self {
            connection: Some(connection),
            pool,
            has_statement_cache,
            runtime: Handle::current(),
            begun: None,
            is_lost: false,
            is_spoilt: false,
            is_handed_out: false,
            forgets_statements: false,
            is_barred: false,
        }
    }

    /// Bars the handler's further statements if sqlx has ended the transaction: each would be committed on its own. sqlx does so
    /// when a `begin` in it fails or is given up.
    pub(crate) fn bar_if_ended(&mut self) {
        if self.is_barred || self.depth() > 0 {
            return;
        }
        self.is_barred = true;
        tracing::warn!(
            "sqlx has ended a call's transaction, in which a `begin` failed or was given up; the call fails"
        );
        let _ = send_now(Manager::begin(self, Some(BARRIER.into_sql_str())));
    }

    /// Returns whether the connection keeps prepared statements for reuse. If not, a statement of the handler must not be
    /// [persistent](sqlx::query::Query::persistent): nothing would ever close it.
    pub fn has_statement_cache(&self) -> bool {
        self.has_statement_cache
    }

    /// Executes statements by the protocol of simple queries.
    async fn send(&mut self, sql: &str) -> Result<(), DriverError> {
        let sent = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut **self).await;
        sent.map(drop).map_err(|error| self.failed(error))
    }

    /// Sends what sqlx has queued, and waits for all answers. The next statement gets the error of one that was given up: here
    /// it is dropped.
    async fn settle(&mut self) -> Result<(), DriverError> {
        loop {
            match self.flush().await.map_err(|error| self.failed(error)) {
                Err(error) if is_of_statement(&error) => self.forgets_statements = true,
                settled => return settled,
            }
        }
    }

    /// Rolls back the transactions that sqlx knows of, and asks before whether the handler's has failed; or one of which it did not know, since
    /// its BEGIN was given up.
    ///
    /// Nothing is sent after the ROLLBACK until it is answered: if a client leaves between two answers outside of a transaction,
    /// PgBouncer before version 1.21 gives its server, and with it the second answer, to another client.
    async fn rolled_back(&mut self, was_known: bool) -> Result<(), DriverError> {
        self.settle().await?;
        if self.depth() > 0 {
            if self.is_handed_out {
                let answer = send_now(sqlx::raw_sql(HAS_NOT_FAILED).execute(&mut **self));
                self.forgets_statements |= matches!(answer, Poll::Ready(Err(_)));
            }
            while self.depth() > 0 {
                Manager::start_rollback(self);
            }
            return self.settle().await;
        }
        if was_known { Ok(()) } else { self.send("ROLLBACK").await }
    }

    /// Runs a statement with its parameters. Without a cache of statements, only inside of a transaction.
    async fn run(&mut self, statement: Statement<'_>) -> Result<Vec<SqlxRow>, DriverError> {
        let rows = bound(statement, self.has_statement_cache()).fetch_all(&mut **self).await;
        self.read(rows)
    }

    /// Runs a statement with literals. Neither they nor the statement are logged.
    async fn run_with_literals(&mut self, statement: Statement<'_>) -> Result<Vec<SqlxRow>, DriverError> {
        let text = with_literals(statement).map_err(DriverError::unanswered)?;
        let query = sqlx::raw_sql(AssertSqlSafe(text)).fetch_all(&mut **self);
        let rows = query.with_subscriber(NoSubscriber::new()).await;
        self.read(rows)
    }

    fn read(&mut self, rows: Result<Vec<sqlx::postgres::PgRow>, sqlx::Error>) -> Result<Vec<SqlxRow>, DriverError> {
        let rows = rows.and_then(|rows| rows.into_iter().map(SqlxRow::new).collect());
        rows.map_err(|error| self.failed(error))
    }

    /// Notes what an error says about the connection.
    fn failed(&mut self, error: sqlx::Error) -> DriverError {
        let error = explained(error);
        self.is_lost |= error.is_connection_lost();
        self.is_spoilt |= error.is_stale();
        error
    }

    /// Asks the server, on a separate connection, to cancel the statement of the transaction. Names the transaction's beginning,
    /// too: behind a pooler, the server process may run another client's transaction by now.
    async fn cancel_on_another(&self, ServerTransaction { pid, time }: &ServerTransaction) -> Result<(), sqlx::Error> {
        let mut other = PgConnection::connect_with(&self.pool.connect_options()).await?;
        let cancel = format!(
            "SELECT pg_catalog.pg_cancel_backend(pid) FROM pg_catalog.pg_stat_activity
             WHERE pid = {pid} AND pg_catalog.date_part('epoch', xact_start) = '{time}'::pg_catalog.float8"
        );
        sqlx::raw_sql(AssertSqlSafe(cancel)).execute(&mut other).await?;
        other.close().await
    }

    /// The number of open transactions and savepoints that sqlx knows of.
    fn depth(&self) -> usize {
        Manager::get_transaction_depth(self)
    }
}

impl Connection for SqlxConnection {
    type Row = SqlxRow;

    async fn execute(&mut self, sql: &str) -> Result<(), DriverError> {
        if sql.is_empty() {
            // The store waits for the answers of what it has given up.
            self.settle().await?;
        }
        self.send(sql).await
    }

    async fn query(&mut self, statement: Statement<'_>) -> Result<Vec<SqlxRow>, DriverError> {
        if self.has_statement_cache() || self.depth() > 0 {
            self.run(statement).await
        } else {
            self.run_with_literals(statement).await
        }
    }

    async fn begin(
        &mut self,
        begin: &str,
        first: Statement<'_>,
        savepoint: Option<&str>,
    ) -> Result<Vec<SqlxRow>, DriverError> {
        // So that sqlx knows of the transaction, and a handler's `begin` sets a savepoint.
        let begun = Manager::begin(self, Some(AssertSqlSafe(begin.to_owned()).into_sql_str())).await;
        begun.map_err(|error| self.failed(error))?;
        let rows = self.run(first).await?;
        self.begun = rows.first().and_then(ServerTransaction::read);
        if let Some(savepoint) = savepoint {
            self.send(savepoint).await?;
        }
        Ok(rows)
    }

    async fn commit(&mut self, roll_back: Option<&str>, record: Option<Statement<'_>>) -> Result<(), DriverError> {
        if self.depth() == 0 {
            let message = "sqlx has ended the transaction: a `begin` in it failed or was given up";
            return Err(DriverError::answered(NO_TRANSACTION, message, false, sqlx::Error::BeginFailed));
        }
        if let Some(roll_back) = roll_back {
            self.send(roll_back).await?;
        }
        match record {
            Some(record) => drop(self.run(record).await?),
            // Fails in a transaction that has failed, and outside of one.
            None => self.send("SAVEPOINT idempotency_end").await?,
        }
        if self.depth() == 1 {
            return Manager::commit(self).await.map_err(|error| self.failed(error));
        }
        // The handler has kept a savepoint of sqlx from being dropped, or has ended the transaction itself.
        self.is_spoilt = true;
        self.send("COMMIT").await
    }

    /// A statement that was given up is cancelled if it does not end soon.
    async fn roll_back(&mut self) -> Result<(), DriverError> {
        let was_known = self.depth() > 0;
        if let Ok(rolled_back) = timeout(PATIENCE, self.rolled_back(was_known)).await {
            return rolled_back;
        }
        self.cancel().await;
        self.rolled_back(was_known).await
    }

    async fn cancel(&self) {
        let Some(begun) = &self.begun else { return };
        cancel_in_time(self.cancel_on_another(begun)).await;
    }

    fn hand_out(&mut self) {
        self.is_handed_out = true;
    }

    fn is_closed(&self) -> bool {
        self.is_lost
    }

    fn close(mut self) {
        self.is_spoilt = true;
    }
}

/// Returns whether the server has answered a statement with this error, and answers the next.
fn is_of_statement(error: &DriverError) -> bool {
    error.code().is_some() && !error.is_connection_lost() && !error.leaves_doubt()
}

/// Sends a statement without waiting for its answer, which it returns if it is there at once. If not, the next one gets its error. Behind what
/// sqlx has queued: it sends nothing else before it has all the answers.
fn send_now<T>(statement: impl Future<Output = T>) -> Poll<T> {
    pin!(statement).poll(&mut Context::from_waker(Waker::noop()))
}

impl ServerTransaction {
    fn read(row: &SqlxRow) -> Option<Self> {
        match (row.value("pid").ok()?, row.value("begun").ok()?) {
            (Value::Int(Some(pid)), Value::Double(Some(time))) => Some(Self { pid, time }),
            _ => None,
        }
    }
}

impl Deref for SqlxConnection {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        self.connection.as_ref().expect("only `drop` takes it out")
    }
}

impl DerefMut for SqlxConnection {
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.connection.as_mut().expect("only `drop` takes it out")
    }
}

impl Drop for SqlxConnection {
    fn drop(&mut self) {
        let Some(mut connection) = self.connection.take() else { return };
        // The pool spawns a task, here or when it is dropped.
        let _entered = self.runtime.enter();
        if self.is_spoilt || self.is_lost {
            drop(connection.detach());
        } else {
            let forgets_statements = self.forgets_statements;
            // If it is dropped with the runtime, the connection is closed.
            drop(tokio::spawn(timeout(RETURN, async move {
                if forgets_statements && connection.clear_cached_statements().await.is_err() {
                    return drop(connection.detach());
                }
                connection.return_to_pool().await;
            })));
        }
    }
}

impl fmt::Debug for SqlxConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlxConnection").finish_non_exhaustive()
    }
}
