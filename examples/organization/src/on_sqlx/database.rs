//! The database access of the handlers. Every access is in a transaction, as one user.

use std::{
    fmt,
    ops::{Deref, DerefMut},
    time::Duration,
};

use sqlx::{Executor as _, PgConnection, PgPool, Postgres, postgres::PgPoolOptions};
use tonic::Status;
use tonic_idempotency_sqlx::{Transaction, TransactionConnection};
use uuid::Uuid;

use super::failure;
use crate::{
    auth::Caller,
    call::{Call, step, wait},
    database::LOGIN_ROLE,
    driver::ApiDatabase,
    run::Error,
};

/// Sets a new connection up. The transaction fails on a standby, which keeps standbys out of the pool.
const SETUP: &str = "SET ROLE organization_api; BEGIN READ WRITE; COMMIT";

/// The maximum number of connections in a pool.
const MOST_CONNECTIONS: u32 = 16;

/// How long a call waits for a connection, if all are in use or the database is away.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);

/// The database of the handlers.
#[derive(Clone)]
pub(super) struct Database {
    pool: PgPool,
    commit_delay: Duration,
    /// Whether the connections take the way of a pooler in transaction mode.
    is_pooled: bool,
}

impl Database {
    /// Creates a database. `commit_delay` is the minimum time that a create call waits before it commits.
    pub(super) fn new(pool: PgPool, commit_delay: Duration, is_pooled: bool) -> Self {
        Self { pool, commit_delay, is_pooled }
    }

    /// Returns whether a statement is prepared once for each connection. Behind a pooler in transaction mode it is prepared for one use:
    /// the next transaction may not find it, or find another client's.
    pub(super) fn is_persistent(&self) -> bool {
        !self.is_pooled
    }

    /// Begins the writes of a create call.
    pub(super) async fn create(&self, call: &Call) -> Result<Writes, Status> {
        step("handler_started");
        self.write(call).await
    }

    /// Begins the writes of a call: in the call's transaction, which the idempotency layer commits, in transactional mode; in
    /// a transaction of the handler in reserved mode.
    ///
    /// A real service needs only one of the two. The sample has both, so that `--mode` can compare them.
    pub(super) async fn write(&self, call: &Call) -> Result<Writes, Status> {
        Ok(match Transaction::from_extensions(&call.extensions) {
            Ok(transaction) => Writes::OfCall(transaction.connection().await?),
            Err(_) => Writes::OfHandler(self.read(call.caller).await?),
        })
    }

    /// Begins a transaction as the caller. The setting for row-level security ends with the transaction.
    pub(super) async fn read(&self, caller: Caller) -> Result<sqlx::Transaction<'static, Postgres>, Status> {
        let mut transaction = self.pool.begin().await.map_err(|error| failure::of_begin(&error))?;
        self.query("SELECT set_config('app.current_user_id', $1, true)")
            .bind(caller.user.to_string())
            .execute(&mut *transaction)
            .await
            .map_err(failure::of_statement)?;
        Ok(transaction)
    }

    /// Ends the writes of a create call that has created a resource.
    pub(super) async fn created(&self, call: &Call, writes: Writes, resource: &str, id: Uuid) -> Result<(), Status> {
        step("handler_wrote");
        wait(self.commit_delay.max(call.delay)).await;
        if let Writes::OfHandler(transaction) = writes {
            // If the reply to the commit is lost, the commit may have succeeded. A retry must then not create another
            // resource.
            call.execution.effect_committed();
            transaction.commit().await.map_err(failure::of_statement)?;
            step("handler_committed");
        }
        tracing::info!(resource, %id, user = %call.caller.user, "created");
        Ok(())
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("commit_delay", &self.commit_delay).finish_non_exhaustive()
    }
}

/// The connection of a handler's writes.
pub(super) enum Writes {
    /// In the call's transaction.
    OfCall(TransactionConnection),
    /// In a transaction of the handler.
    OfHandler(sqlx::Transaction<'static, Postgres>),
}

impl Writes {
    /// Ends the writes of an idempotent statement.
    pub(super) async fn done(self) -> Result<(), Status> {
        match self {
            Self::OfCall(_) => Ok(()),
            Self::OfHandler(transaction) => transaction.commit().await.map_err(failure::of_statement),
        }
    }
}

impl Deref for Writes {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        match self {
            Self::OfCall(connection) => connection,
            Self::OfHandler(transaction) => transaction,
        }
    }
}

impl DerefMut for Writes {
    fn deref_mut(&mut self) -> &mut PgConnection {
        match self {
            Self::OfCall(connection) => connection,
            Self::OfHandler(transaction) => transaction,
        }
    }
}

/// Creates a connection pool of the API. Its connections log in as a role of its own, with the password in the URL, and use
/// the API's role.
///
/// # Errors
///
/// The URL is invalid.
pub fn sqlx_pool(database: &ApiDatabase) -> Result<PgPool, Error> {
    let mut options = tonic_idempotency_sqlx::options(&database.url)?.username(LOGIN_ROLE);
    if database.is_pooled {
        options = options.statement_cache_capacity(0).extra_float_digits(None);
    }
    let pool = PgPoolOptions::new()
        .max_connections(MOST_CONNECTIONS)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .after_connect(|connection, _| Box::pin(async move { connection.execute(SETUP).await.map(drop) }))
        .connect_lazy_with(options);
    Ok(pool)
}
