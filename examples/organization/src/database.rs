//! The database access of the handlers.

use std::{fmt, time::Duration};

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Object, Pool, QueueMode, RecyclingMethod, Runtime, Transaction,
};
use tokio_postgres::{Config, NoTls, Row, types::Type};
use tonic::Status;
use uuid::Uuid;

use crate::{
    auth::Caller,
    call::{Call, step, wait},
    error::Error,
    failure,
    statement::{Parameters, Statements},
};

/// The role of the API. It is not a superuser and does not own any table, so row-level security applies to it.
pub const API_ROLE: &str = "organization_api";

/// The role that the API logs in as. It can do nothing but become [`API_ROLE`]: a statement that resets the role does not
/// make a superuser.
pub const LOGIN_ROLE: &str = "organization_login";

/// The role of a person on call, for the program `tonic-idempotency`. It has no right on a table.
pub(crate) const OPERATOR_ROLE: &str = "organization_operator";

/// The maximum number of connections in a pool.
const MOST_CONNECTIONS: usize = 16;

/// How long a call waits for a connection if all are in use.
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

/// The timeout for opening a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a connection may be silent before it is examined, or closed while something is sent on it.
const SILENCE: Duration = Duration::from_secs(15);

/// The statement that creates a resource.
pub(crate) struct Insert {
    /// The type of the resource, for the log.
    pub(crate) resource: &'static str,
    /// The SQL that inserts one row and returns its `id`.
    pub(crate) sql: &'static str,
}

/// The database of the handlers. Every access is in a transaction, as one user.
///
/// A handler that is dropped because its client disconnected leaves no open transaction behind: dropping a
/// [`deadpool_postgres::Transaction`] sends its ROLLBACK before any statement of the connection's next user.
#[derive(Clone)]
pub struct Database {
    pool: Pool,
    commit_delay: Duration,
    statements: Statements,
}

impl Database {
    /// Creates a database. `commit_delay` is the minimum time that a create call waits before it commits.
    ///
    /// Statements are prepared once for each connection.
    pub fn new(pool: Pool, commit_delay: Duration) -> Self {
        Self { pool, commit_delay, statements: Statements::Prepared }
    }

    /// Sets whether the connections take the way of a pooler in transaction mode. Then statements are parsed each time.
    pub fn pooled(self, is_pooled: bool) -> Self {
        Self { statements: if is_pooled { Statements::Parsed } else { Statements::Prepared }, ..self }
    }

    /// Creates a resource and returns its id. In transactional mode, uses the call's transaction, which the idempotency
    /// layer commits; in reserved mode, uses a transaction of the handler.
    ///
    /// A real service needs only one of the two. The sample has both, so that `--mode` can compare them.
    pub(crate) async fn create(
        &self,
        call: &Call,
        insert: &Insert,
        parameters: Parameters<'_>,
    ) -> Result<Uuid, Status> {
        step("handler_started");
        let id = match transaction_of(call) {
            Some(transaction) => self.insert(call, &transaction, insert, parameters).await?,
            None => self.insert_and_commit(call, insert, parameters).await?,
        };
        tracing::info!(resource = insert.resource, %id, user = %call.caller.user, "created");
        Ok(id)
    }

    /// Creates a resource in transactional mode, where the layer begins and commits the transaction and sets the user.
    async fn insert(
        &self,
        call: &Call,
        transaction: &tonic_idempotency::Transaction,
        insert: &Insert,
        parameters: Parameters<'_>,
    ) -> Result<Uuid, Status> {
        let rows = self.statements.query_in_call(transaction, insert.sql, parameters).await;
        let rows = rows.map_err(failure::of_transaction)?;
        step("handler_wrote");
        wait(self.commit_delay.max(call.delay)).await;
        id_of(&rows)
    }

    /// Creates a resource in reserved mode.
    async fn insert_and_commit(
        &self,
        call: &Call,
        insert: &Insert,
        parameters: Parameters<'_>,
    ) -> Result<Uuid, Status> {
        let mut connection = self.connection().await?;
        let created = async {
            let transaction = self.begin(&mut connection, call.caller).await?;
            let rows = self.statements.query(&transaction, insert.sql, parameters).await?;
            step("handler_wrote");
            wait(self.commit_delay.max(call.delay)).await;
            // If the reply to the commit is lost, the commit may have succeeded. A retry must then not create another
            // resource.
            call.execution.effect_committed();
            transaction.commit().await?;
            step("handler_committed");
            Ok(rows)
        };
        let rows: Result<_, tokio_postgres::Error> = created.await;
        id_of(&rows.map_err(|error| failure::of_statement(&error))?)
    }

    /// Runs an idempotent statement, in the call's transaction or else in one of its own. Returns the number of changed rows.
    pub(crate) async fn execute(&self, call: &Call, sql: &str, parameters: Parameters<'_>) -> Result<u64, Status> {
        let Some(transaction) = transaction_of(call) else {
            let mut connection = self.connection().await?;
            let executed = async {
                let transaction = self.begin(&mut connection, call.caller).await?;
                let changed = self.statements.execute(&transaction, sql, parameters).await?;
                transaction.commit().await?;
                Ok(changed)
            };
            return executed.await.map_err(|error| failure::of_statement(&error));
        };
        let executed = self.statements.execute_in_call(&transaction, sql, parameters).await;
        executed.map_err(failure::of_transaction)
    }

    /// Returns the rows of `sql` that the caller is allowed to see, with the writes of the call's transaction.
    pub(crate) async fn query(&self, call: &Call, sql: &str, parameters: Parameters<'_>) -> Result<Vec<Row>, Status> {
        match transaction_of(call) {
            Some(transaction) => {
                let rows = self.statements.query_in_call(&transaction, sql, parameters).await;
                rows.map_err(failure::of_transaction)
            }
            None => self.select(call.caller, sql, parameters).await,
        }
    }

    /// Returns the rows of `sql` that the caller is allowed to see.
    pub(crate) async fn select(
        &self,
        caller: Caller,
        sql: &str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, Status> {
        let mut connection = self.connection().await?;
        let selected = async {
            let transaction = self.begin(&mut connection, caller).await?;
            let rows = self.statements.query(&transaction, sql, parameters).await?;
            transaction.commit().await?;
            Ok(rows)
        };
        selected.await.map_err(|error| failure::of_statement(&error))
    }

    /// Begins a transaction as the caller. The setting for row-level security ends with the transaction.
    async fn begin<'a>(
        &self,
        connection: &'a mut Object,
        caller: Caller,
    ) -> Result<Transaction<'a>, tokio_postgres::Error> {
        let transaction = connection.transaction().await?;
        let set_user = "SELECT set_config('app.current_user_id', $1, true)";
        self.statements.query(&transaction, set_user, &[(&caller.user.to_string(), Type::TEXT)]).await?;
        Ok(transaction)
    }

    async fn connection(&self) -> Result<Object, Status> {
        self.pool.get().await.map_err(|error| failure::of_pool(&error))
    }
}

/// Returns the id of the resource that was created.
fn id_of(rows: &[Row]) -> Result<Uuid, Status> {
    let row = rows.first().ok_or_else(|| Status::internal("the statement has created no row"))?;
    row.try_get("id").map_err(|error| failure::of_statement(&error))
}

/// The transaction for the handler's writes; `None` in reserved mode.
fn transaction_of(call: &Call) -> Option<tonic_idempotency::Transaction> {
    tonic_idempotency::Transaction::from_extensions(&call.extensions).ok()
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("commit_delay", &self.commit_delay).finish_non_exhaustive()
    }
}

/// Creates the connection pool of the API. Its connections log in as a role of its own, with the password in the URL, and
/// use the API's role.
///
/// # Errors
///
/// The URL is invalid.
pub fn pool(database_url: &str) -> Result<Pool, Error> {
    let mut config: Config = database_url.parse()?;
    config.user(LOGIN_ROLE);
    // A server that has gone without a word is noticed while a connection is idle, and while it sends.
    config.connect_timeout(CONNECT_TIMEOUT).tcp_user_timeout(SILENCE);
    config.keepalives_idle(SILENCE).keepalives_interval(SILENCE / 3).keepalives_retries(3);
    let manager = Manager::from_config(config, NoTls, ManagerConfig { recycling_method: RecyclingMethod::Fast });
    let as_api = Hook::async_fn(|connection: &mut deadpool_postgres::ClientWrapper, _| {
        Box::pin(
            async move { connection.batch_execute(&format!("SET ROLE {API_ROLE}")).await.map_err(HookError::Backend) },
        )
    });
    let pool = Pool::builder(manager)
        .max_size(MOST_CONNECTIONS)
        .queue_mode(QueueMode::Lifo)
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(WAIT_TIMEOUT))
        .create_timeout(Some(CONNECT_TIMEOUT))
        .post_create(as_api)
        .build()?;
    Ok(pool)
}
