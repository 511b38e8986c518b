//! The pool of the Go server: pgx's, with what its hooks run on each connection.

use deadpool_postgres::{Object, Pool};
use tokio_postgres::{
    Row,
    types::{ToSql, Type},
};
use tonic::Status;
use uuid::Uuid;

use super::super::{contender::Statements, handler::internal};

const SET_USER: &str = "SELECT set_config('app.current_user_id', $1, false)";

const SET_ORGANIZATION: &str = "SELECT set_config('app.current_organization_id', $1, false)";

const RESET_USER: &str = "RESET app.current_user_id";

const RESET_ORGANIZATION: &str = "RESET app.current_organization_id";

/// The work of the pool's hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wiring {
    /// The least that the interceptor works with: they set the user, whom row-level security needs, and reset it.
    Leanest,
    /// As in the interceptor's own product: they set and reset the organisation, too. The handlers use the same pool.
    Product,
}

/// A pool of connections, each of which is acquired for one statement, or for the handler's transaction.
#[derive(Clone, Debug)]
pub(crate) struct Connections {
    pool: Pool,
    wiring: Wiring,
    statements: Statements,
}

impl Connections {
    pub(crate) fn new(pool: Pool, wiring: Wiring, statements: Statements) -> Self {
        Self { pool, wiring, statements }
    }

    /// Acquires a connection for this user. The caller waits for the statements of the hook.
    pub(super) async fn acquire(&self, user: Uuid) -> Result<Acquired, Status> {
        let connection = self.pool.get().await.map_err(internal)?;
        let acquired = Acquired { connection: Some(connection), wiring: self.wiring, statements: self.statements };
        if self.wiring == Wiring::Product {
            acquired.query(SET_ORGANIZATION, &[(&organization::ORGANIZATION.to_string(), Type::TEXT)]).await?;
        }
        acquired.query(SET_USER, &[(&user.to_string(), Type::TEXT)]).await?;
        Ok(acquired)
    }
}

/// A connection that was acquired. When it is dropped, the hook's statements reset it, and then it goes back to the pool: as
/// in pgx, the caller does not wait for that.
pub(super) struct Acquired {
    /// `None` once it is on its way back.
    connection: Option<Object>,
    wiring: Wiring,
    statements: Statements,
}

impl Acquired {
    /// Executes a statement with parameters.
    pub(super) async fn query(
        &self,
        sql: &str,
        parameters: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>, Status> {
        let connection = self.connection()?;
        let rows = match self.statements {
            Statements::Parsed => connection.query_typed(sql, parameters).await,
            Statements::AsItComes => {
                let types: Vec<_> = parameters.iter().map(|(_, parameter)| parameter.clone()).collect();
                let values: Vec<_> = parameters.iter().map(|(value, _)| *value).collect();
                let statement = connection.prepare_typed_cached(sql, &types).await.map_err(internal)?;
                connection.query(&statement, &values).await
            }
        };
        rows.map_err(internal)
    }

    /// Executes a statement without parameters, for which pgx uses the simple protocol.
    pub(super) async fn execute(&self, sql: &str) -> Result<(), Status> {
        self.connection()?.batch_execute(sql).await.map_err(internal)
    }

    fn connection(&self) -> Result<&Object, Status> {
        self.connection.as_ref().ok_or_else(|| Status::internal("the connection is on its way back"))
    }
}

impl Drop for Acquired {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        let resets: &[&str] = match self.wiring {
            Wiring::Leanest => &[RESET_USER],
            Wiring::Product => &[RESET_ORGANIZATION, RESET_USER],
        };
        tokio::spawn(async move {
            for reset in resets {
                if connection.batch_execute(reset).await.is_err() {
                    // Closes it.
                    drop(Object::take(connection));
                    return;
                }
            }
        });
    }
}
