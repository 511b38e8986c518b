use std::{fmt, time::Duration};

use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime, Transaction};
use tokio_postgres::{
    Config, NoTls, Row,
    types::{ToSql, Type},
};
use tonic::Status;
use uuid::Uuid;

use crate::{auth::Caller, call::Call, failure, run::Error};

/// The role that the API works as: not a superuser and no table's owner, so that row-level security binds it.
pub(crate) const API_ROLE: &str = "organization_api";

/// More connections than this are never open in one pool.
const MOST_CONNECTIONS: usize = 16;

/// How long a call waits for a connection, while others hold them all.
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a new connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The parameters of a statement, with their types, so that it need not be prepared first.
pub(crate) type Parameters<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

/// How a resource is created.
pub(crate) struct Insert {
    /// What is created, for the log.
    pub(crate) resource: &'static str,
    /// Inserts one row and returns its `id`.
    pub(crate) sql: &'static str,
}

/// What the handlers read and write, always as one user, in one transaction.
///
/// A handler that is dropped, because its client hung up, leaves no open transaction behind: dropping a
/// [`deadpool_postgres::Transaction`] sends its ROLLBACK before anything that the connection's next user says.
#[derive(Clone)]
pub struct Database {
    pool: Pool,
    commit_delay: Duration,
}

impl Database {
    /// `commit_delay` is how long a create waits before it commits, if its call does not ask for longer.
    pub fn new(pool: Pool, commit_delay: Duration) -> Self {
        Self { pool, commit_delay }
    }

    /// Creates a resource, and returns its id: in the call's own transaction, which the idempotency layer commits, or where
    /// the procedure is in reserved mode in a transaction of the handler's.
    ///
    /// One of the two is all that a service needs. This one has both, so that `--mode` can compare them.
    pub(crate) async fn create(
        &self,
        call: &Call,
        insert: &Insert,
        parameters: Parameters<'_>,
    ) -> Result<Uuid, Status> {
        step("handler_started");
        let id = match &call.transaction {
            Some(transaction) => self.insert(call, transaction, insert, parameters).await?,
            None => self.insert_and_commit(call, insert, parameters).await?,
        };
        tracing::info!(resource = insert.resource, %id, user = %call.caller.user, "created");
        Ok(id)
    }

    /// Transactional mode: no BEGIN, no user to set, no COMMIT.
    async fn insert(
        &self,
        call: &Call,
        transaction: &tonic_idempotency::Transaction,
        insert: &Insert,
        parameters: Parameters<'_>,
    ) -> Result<Uuid, Status> {
        let row = transaction.query_typed_one(insert.sql, parameters).await.map_err(failure::of_transaction)?;
        step("handler_wrote");
        tokio::time::sleep(self.commit_delay.max(call.delay)).await;
        row.try_get("id").map_err(|error| failure::of_statement(&error))
    }

    /// Reserved mode.
    async fn insert_and_commit(
        &self,
        call: &Call,
        insert: &Insert,
        parameters: Parameters<'_>,
    ) -> Result<Uuid, Status> {
        let mut connection = self.connection().await?;
        let created = async {
            let transaction = begin(&mut connection, call.caller).await?;
            let row = transaction.query_typed_one(insert.sql, parameters).await?;
            let id: Uuid = row.try_get("id")?;
            step("handler_wrote");
            tokio::time::sleep(self.commit_delay.max(call.delay)).await;
            // An answer that is lost says nothing of the commit: a retry must not create once more.
            call.execution.effect_committed();
            transaction.commit().await?;
            step("handler_committed");
            Ok(id)
        };
        created.await.map_err(|error| failure::of_statement(&error))
    }

    /// Runs a statement that changes nothing the second time: in the call's own transaction, or in one of its own.
    pub(crate) async fn execute(&self, call: &Call, sql: &str, parameters: Parameters<'_>) -> Result<(), Status> {
        match &call.transaction {
            Some(transaction) => {
                transaction.execute_typed(sql, parameters).await.map_err(failure::of_transaction)?;
            }
            None => {
                self.select(call.caller, sql, parameters).await?;
            }
        }
        Ok(())
    }

    /// What the caller may see of what `sql` selects.
    pub(crate) async fn select(
        &self,
        caller: Caller,
        sql: &str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, Status> {
        let mut connection = self.connection().await?;
        let selected = async {
            let transaction = begin(&mut connection, caller).await?;
            let rows = transaction.query_typed(sql, parameters).await?;
            transaction.commit().await?;
            Ok(rows)
        };
        selected.await.map_err(|error| failure::of_statement(&error))
    }

    async fn connection(&self) -> Result<Object, Status> {
        self.pool.get().await.map_err(|error| failure::of_pool(&error))
    }
}

/// Where a handler stands, as the layer says it of itself with the target `tonic_idempotency::step`.
fn step(step: &'static str) {
    tracing::trace!(target: "organization::step", step);
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("commit_delay", &self.commit_delay).finish_non_exhaustive()
    }
}

/// The connections of the API, each as its own role.
///
/// # Errors
///
/// The URL cannot be read.
pub fn pool(database_url: &str) -> Result<Pool, Error> {
    let config: Config = database_url.parse()?;
    let manager = Manager::from_config(config, NoTls, ManagerConfig { recycling_method: RecyclingMethod::Fast });
    let as_api = Hook::async_fn(|connection: &mut deadpool_postgres::ClientWrapper, _| {
        Box::pin(
            async move { connection.batch_execute(&format!("SET ROLE {API_ROLE}")).await.map_err(HookError::Backend) },
        )
    });
    let pool = Pool::builder(manager)
        .max_size(MOST_CONNECTIONS)
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(WAIT_TIMEOUT))
        .create_timeout(Some(CONNECT_TIMEOUT))
        .post_create(as_api)
        .build()?;
    Ok(pool)
}

/// A transaction as the caller: the setting that row-level security asks for ends with it.
async fn begin(connection: &mut Object, caller: Caller) -> Result<Transaction<'_>, tokio_postgres::Error> {
    let transaction = connection.transaction().await?;
    transaction
        .query_typed("SELECT set_config('app.current_user_id', $1, true)", &[(&caller.user.to_string(), Type::TEXT)])
        .await?;
    Ok(transaction)
}
