//! The handle by which handlers use their transaction.

use std::{fmt, sync::Arc};

use bytes::Buf;
use http::Extensions;
use tokio_postgres::{
    Row, Statement, ToStatement,
    types::{ToSql, Type},
};
use tonic::Request;

use super::{
    CopyInSink, CopyOutStream, TransactionError,
    session::{StatementConnection, TransactionSession},
};
use crate::store::driver::{Level, Session as _};

/// The transaction of a call to a transactional procedure. The handler's writes, the record of the key and the id of
/// the created resource are committed together after the handler has returned, or not at all. An error, a panic, a lost
/// connection or a crash leaves nothing behind.
///
/// ```
/// use tokio_postgres::types::Type;
/// use tonic::{Request, Response, Status};
/// use tonic_idempotency::Transaction;
///
/// # struct CreateOrderRequest { name: String }
/// # struct CreateOrderResponse { order_id: String }
/// async fn create_order(request: Request<CreateOrderRequest>) -> Result<Response<CreateOrderResponse>, Status> {
///     let transaction = Transaction::from_request(&request)?; // instead of a connection from a pool
///     let name = request.into_inner().name;
///     let insert = "INSERT INTO orders (name) VALUES ($1) RETURNING id";
///     let row = transaction.query_typed_one(insert, &[(&name, Type::TEXT)]).await?;
///     let order: uuid::Uuid = row.get("id");
///     Ok(Response::new(CreateOrderResponse { order_id: order.to_string() })) // no COMMIT: the layer commits
/// }
/// ```
///
/// - **Row-level security.** The setting `app.current_user_id` holds the call's user for this transaction, if the user's id
///   is a UUID. [`session_settings`](crate::layer::IdempotencyLayerBuilder::session_settings) sets others, such as the
///   tenant. The layer's own, `idempotency.owner`, is for the table of keys.
/// - **Clones** are handles of the same transaction, for the handler's helpers. After the call has ended, statements of
///   every handle fail with [`Ended`](crate::store::TransactionErrorKind::Ended). A call whose client has hung up has ended, too, unless the
///   layer lets it go on.
/// - **Conflicts.** A transaction that has lost against another (a serialization failure or a deadlock) is rolled
///   back, and the client is told to retry, whatever the handler answers. [`savepoint`](Self::savepoint) limits what a
///   conflict spoils; a savepoint that the handler sets in SQL of its own does not.
/// - **Methods** are those of [`tokio_postgres::Client`]. Prefer the ones whose names contain `typed`: they need no
///   prepared statement, so they save a round trip and work behind every PgBouncer.
/// - **Neither `COMMIT` nor `ROLLBACK`.** The layer ends the transaction. If the handler does, the call is refused with
///   `INTERNAL`.
/// - **Without a key**, a call to a transactional procedure gets a transaction too, but no record.
///
/// # Cancel safety
///
/// If the future of a statement is dropped before the answer has come, the server may execute the statement all the
/// same. If the transaction fails then, the client is told to retry: the cause may have been a conflict.
#[derive(Clone)]
pub struct Transaction {
    session: Arc<TransactionSession>,
    /// The savepoint that the handle belongs to, or the transaction itself.
    level: Level,
}

impl Transaction {
    /// Returns the transaction of the call that the request belongs to.
    ///
    /// # Errors
    ///
    /// [`Missing`](crate::store::TransactionErrorKind::Missing) if the procedure is not transactional, or the layer has no store.
    pub fn from_request<T>(request: &Request<T>) -> Result<Self, TransactionError> {
        Self::from_extensions(request.extensions())
    }

    /// Returns the transaction of a call whose handler has no tonic request. The extensions are those of its
    /// `http::Request`, or of the `RequestContext` of `connectrpc`.
    ///
    /// # Errors
    ///
    /// As [`from_request`](Self::from_request).
    pub fn from_extensions(extensions: &Extensions) -> Result<Self, TransactionError> {
        Ok(Self { session: TransactionSession::from_extensions(extensions)?, level: Level::TRANSACTION })
    }

    /// As [`tokio_postgres::Client::query`].
    ///
    /// # Errors
    ///
    /// [`TransactionError`] if the statement fails, or the call has ended.
    pub async fn query<T>(
        &self,
        statement: &T,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, TransactionError>
    where
        T: ?Sized + ToStatement,
    {
        let connection = self.enter().await?;
        connection.answer(connection.query(statement, parameters)).await
    }

    /// As [`tokio_postgres::Client::query_one`].
    ///
    /// # Errors
    ///
    /// As [`query`](Self::query).
    pub async fn query_one<T>(&self, statement: &T, parameters: &[&(dyn ToSql + Sync)]) -> Result<Row, TransactionError>
    where
        T: ?Sized + ToStatement,
    {
        let connection = self.enter().await?;
        connection.answer(connection.query_one(statement, parameters)).await
    }

    /// As [`tokio_postgres::Client::query_opt`].
    ///
    /// # Errors
    ///
    /// As [`query`](Self::query).
    pub async fn query_opt<T>(
        &self,
        statement: &T,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, TransactionError>
    where
        T: ?Sized + ToStatement,
    {
        let connection = self.enter().await?;
        connection.answer(connection.query_opt(statement, parameters)).await
    }

    /// As [`tokio_postgres::Client::query_typed`].
    ///
    /// # Errors
    ///
    /// As [`query`](Self::query).
    pub async fn query_typed(
        &self,
        statement: &str,
        parameters: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>, TransactionError> {
        let connection = self.enter().await?;
        connection.answer(connection.query_typed(statement, parameters)).await
    }

    /// As [`tokio_postgres::Client::query_typed_one`].
    ///
    /// # Errors
    ///
    /// As [`query`](Self::query).
    pub async fn query_typed_one(
        &self,
        statement: &str,
        parameters: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Row, TransactionError> {
        let connection = self.enter().await?;
        connection.answer(connection.query_typed_one(statement, parameters)).await
    }

    /// As [`tokio_postgres::Client::query_typed_opt`].
    ///
    /// # Errors
    ///
    /// As [`query`](Self::query).
    pub async fn query_typed_opt(
        &self,
        statement: &str,
        parameters: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Option<Row>, TransactionError> {
        let connection = self.enter().await?;
        connection.answer(connection.query_typed_opt(statement, parameters)).await
    }

    /// As [`tokio_postgres::Client::execute`].
    ///
    /// # Errors
    ///
    /// As [`query`](Self::query).
    pub async fn execute<T>(&self, statement: &T, parameters: &[&(dyn ToSql + Sync)]) -> Result<u64, TransactionError>
    where
        T: ?Sized + ToStatement,
    {
        let connection = self.enter().await?;
        connection.answer(connection.execute(statement, parameters)).await
    }

    /// As [`tokio_postgres::Client::execute_typed`].
    ///
    /// # Errors
    ///
    /// As [`query`](Self::query).
    pub async fn execute_typed(
        &self,
        statement: &str,
        parameters: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<u64, TransactionError> {
        let connection = self.enter().await?;
        connection.answer(connection.execute_typed(statement, parameters)).await
    }

    /// As [`tokio_postgres::Client::batch_execute`].
    ///
    /// # Errors
    ///
    /// As [`query`](Self::query).
    pub async fn batch_execute(&self, statements: &str) -> Result<(), TransactionError> {
        let connection = self.enter().await?;
        connection.answer(connection.batch_execute(statements)).await
    }

    /// As [`tokio_postgres::Client::prepare`]. The prepared statement lives as long as the handler holds it. It does
    /// not work behind every PgBouncer.
    ///
    /// # Errors
    ///
    /// As [`query`](Self::query).
    pub async fn prepare(&self, statement: &str) -> Result<Statement, TransactionError> {
        let connection = self.enter().await?;
        connection.answer(connection.prepare(statement)).await
    }

    /// As [`deadpool_postgres::ClientWrapper::prepare_cached`]: prepares the statement once for each connection of the
    /// pool.
    ///
    /// # Errors
    ///
    /// As [`query`](Self::query).
    pub async fn prepare_cached(&self, statement: &str) -> Result<Statement, TransactionError> {
        let connection = self.enter().await?;
        connection.answer(connection.prepare_cached(statement)).await
    }

    /// As [`deadpool_postgres::ClientWrapper::prepare_typed_cached`], with the types of the parameters.
    ///
    /// # Errors
    ///
    /// As [`query`](Self::query).
    pub async fn prepare_typed_cached(&self, statement: &str, types: &[Type]) -> Result<Statement, TransactionError> {
        let connection = self.enter().await?;
        connection.answer(connection.prepare_typed_cached(statement, types)).await
    }

    /// As [`tokio_postgres::Client::copy_in`]. The handler has to finish it before it returns: the end of the call drops
    /// the sink, and the copy fails.
    ///
    /// # Errors
    ///
    /// As [`query`](Self::query).
    pub async fn copy_in<T, U>(&self, statement: &T) -> Result<CopyInSink<U>, TransactionError>
    where
        T: ?Sized + ToStatement,
        U: Buf + 'static + Send,
    {
        let connection = self.enter().await?;
        let sink = connection.answer(connection.copy_in(statement)).await?;
        Ok(CopyInSink::new(&self.session, connection.level(), sink))
    }

    /// As [`tokio_postgres::Client::copy_out`].
    ///
    /// # Errors
    ///
    /// As [`query`](Self::query).
    pub async fn copy_out<T>(&self, statement: &T) -> Result<CopyOutStream, TransactionError>
    where
        T: ?Sized + ToStatement,
    {
        let connection = self.enter().await?;
        let stream = connection.answer(connection.copy_out(statement)).await?;
        Ok(CopyOutStream::new(&self.session, connection.level(), stream))
    }

    /// Returns the connection for one statement.
    pub(super) async fn enter(&self) -> Result<StatementConnection<'_>, TransactionError> {
        self.session.enter(self.level).await
    }

    /// Returns a handle of a savepoint.
    pub(super) fn inside(&self, level: Level) -> Self {
        Self { session: Arc::clone(&self.session), level }
    }

    pub(super) fn session(&self) -> (&TransactionSession, Level) {
        (&self.session, self.level)
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").finish_non_exhaustive()
    }
}
