use std::{fmt, sync::Arc};

use bytes::Buf;
use http::Extensions;
use tokio_postgres::{
    CopyInSink, CopyOutStream, Row, Statement, ToStatement,
    types::{ToSql, Type},
};
use tonic::Request;

use super::{Savepoint, TransactionError, TransactionErrorKind, session::Session};

/// The transaction of a call to a transactional procedure. What the handler writes with it, the record of its key and the id
/// of what it created are committed together, after the handler has returned, or not at all: an error, a panic, a lost
/// connection, a crash leave nothing behind.
///
/// ```
/// use tokio_postgres::types::Type;
/// use tonic::{Request, Response, Status};
/// use tonic_idempotency::Transaction;
///
/// # struct CreateOrderRequest { name: String }
/// # struct CreateOrderResponse { order_id: String }
/// async fn create_order(request: Request<CreateOrderRequest>) -> Result<Response<CreateOrderResponse>, Status> {
///     let transaction = Transaction::from_request(&request)?; // not a connection of a pool of one's own
///     let name = request.into_inner().name;
///     let insert = "INSERT INTO orders (name) VALUES ($1) RETURNING id";
///     let row = transaction.query_typed_one(insert, &[(&name, Type::TEXT)]).await?;
///     let order: uuid::Uuid = row.get("id");
///     Ok(Response::new(CreateOrderResponse { order_id: order.to_string() })) // no COMMIT: the layer commits
/// }
/// ```
///
/// Row-level security sees the call's user: the setting `app.current_user_id` is that of the transaction. Clones are the same
/// transaction, so that helpers can be given one. When the call has ended, every handle is dead: its statements fail with
/// [`TransactionErrorKind::Ended`].
///
/// A call without a key to a transactional procedure has a transaction too, of which nothing is recorded.
///
/// Its methods are those of [`tokio_postgres::Client`]. Prefer the ones that take the types of their parameters: they need no
/// prepared statement, whose preparing is a round trip of its own, and work through PgBouncer. Neither `COMMIT` nor
/// `ROLLBACK` is for the handler to say; a call whose handler ended the transaction itself is refused with `INTERNAL`.
///
/// # Cancel safety
///
/// A statement that is dropped before its answer came is carried out all the same.
#[derive(Clone)]
pub struct Transaction {
    session: Arc<Session>,
}

impl Transaction {
    pub(super) fn new(session: Arc<Session>) -> Self {
        Self { session }
    }

    /// The transaction of the call that this request belongs to.
    ///
    /// # Errors
    ///
    /// [`TransactionErrorKind::Missing`] where its procedure is not transactional, or the layer has no store.
    pub fn from_request<T>(request: &Request<T>) -> Result<Self, TransactionError> {
        Self::from_extensions(request.extensions())
    }

    /// The same for a handler that has no tonic request: in the extensions of its `http::Request`, or of the `RequestContext` that
    /// `connectrpc` gives it.
    ///
    /// # Errors
    ///
    /// As [`of`](Self::of).
    pub fn from_extensions(extensions: &Extensions) -> Result<Self, TransactionError> {
        extensions.get().cloned().ok_or_else(|| TransactionErrorKind::Missing.into())
    }

    /// As [`tokio_postgres::Client::query`].
    ///
    /// # Errors
    ///
    /// [`TransactionError`] where the statement fails, or the call has ended.
    pub async fn query<T>(
        &self,
        statement: &T,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, TransactionError>
    where
        T: ?Sized + ToStatement,
    {
        let connection = self.session.enter().await?;
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
        let connection = self.session.enter().await?;
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
        let connection = self.session.enter().await?;
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
        let connection = self.session.enter().await?;
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
        let connection = self.session.enter().await?;
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
        let connection = self.session.enter().await?;
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
        let connection = self.session.enter().await?;
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
        let connection = self.session.enter().await?;
        connection.answer(connection.execute_typed(statement, parameters)).await
    }

    /// As [`tokio_postgres::Client::batch_execute`].
    ///
    /// # Errors
    ///
    /// As [`query`](Self::query).
    pub async fn batch_execute(&self, statements: &str) -> Result<(), TransactionError> {
        let connection = self.session.enter().await?;
        connection.answer(connection.batch_execute(statements)).await
    }

    /// As [`tokio_postgres::Client::prepare`]. What is prepared lives as long as the handler holds it, and does not work
    /// through every PgBouncer.
    ///
    /// # Errors
    ///
    /// As [`query`](Self::query).
    pub async fn prepare(&self, statement: &str) -> Result<Statement, TransactionError> {
        let connection = self.session.enter().await?;
        connection.answer(connection.prepare(statement)).await
    }

    /// As [`deadpool_postgres::ClientWrapper::prepare_cached`]: prepared once for each connection of the pool.
    ///
    /// # Errors
    ///
    /// As [`query`](Self::query).
    pub async fn prepare_cached(&self, statement: &str) -> Result<Statement, TransactionError> {
        let connection = self.session.enter().await?;
        connection.answer(connection.prepare_cached(statement)).await
    }

    /// As [`tokio_postgres::Client::copy_in`]. To be finished before the handler returns.
    ///
    /// # Errors
    ///
    /// As [`query`](Self::query).
    pub async fn copy_in<T, U>(&self, statement: &T) -> Result<CopyInSink<U>, TransactionError>
    where
        T: ?Sized + ToStatement,
        U: Buf + 'static + Send,
    {
        let connection = self.session.enter().await?;
        connection.answer(connection.copy_in(statement)).await
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
        let connection = self.session.enter().await?;
        connection.answer(connection.copy_out(statement)).await
    }

    /// A savepoint: what is written from here on can be rolled back alone, after a statement that failed, say.
    ///
    /// # Errors
    ///
    /// As [`query`](Self::query).
    pub async fn savepoint(&self) -> Result<Savepoint, TransactionError> {
        let name = self.session.new_savepoint();
        self.batch_execute(&format!("SAVEPOINT {name}")).await?;
        Ok(Savepoint::new(self.clone(), name))
    }

    pub(super) fn session(&self) -> &Session {
        &self.session
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").finish_non_exhaustive()
    }
}
