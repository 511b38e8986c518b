//! The handle by which a handler uses its call's transaction.

use std::{fmt, sync::Arc};

use http::Extensions;
use sqlx::PgPool;
use tonic::Request;
use tonic_idempotency::store::{
    CallSession, ResourceTypes, StoreError,
    driver::{Exclusive, Owned, Session as _},
};

use super::{TransactionConnection, TransactionError};
use crate::driver::{Sqlx, SqlxStore};

/// A transaction that its owner commits. Dropping it rolls back.
pub type OwnedTransaction = Owned<Transaction>;

/// The transaction of a call to a transactional procedure. The handler's writes, the record of the key and the id of
/// the created resource are committed together after the handler has returned, or not at all. An error, a panic, a lost
/// connection or a crash leaves nothing behind.
///
/// ```
/// use tonic::{Request, Response, Status};
/// use tonic_idempotency_sqlx::{Transaction, TransactionError};
///
/// # struct CreateOrderRequest { name: String }
/// # struct CreateOrderResponse { order_id: String }
/// async fn create_order(request: Request<CreateOrderRequest>) -> Result<Response<CreateOrderResponse>, Status> {
///     let mut connection = Transaction::from_request(&request)?.connection().await?; // instead of a pool
///     let insert = sqlx::query_scalar("INSERT INTO orders (name) VALUES ($1) RETURNING id").bind(request.into_inner().name);
///     let order: uuid::Uuid = insert.fetch_one(&mut *connection).await.map_err(TransactionError::from)?;
///     Ok(Response::new(CreateOrderResponse { order_id: order.to_string() })) // no COMMIT: the layer commits
/// }
/// ```
///
/// - **Row-level security.** The setting `app.current_user_id` holds the call's user for this transaction, if the user's id
///   is a UUID. `session_settings` of the layer's builder sets others, such as the tenant.
/// - **Clones** are handles of the same transaction. One at a time has its [`connection`](Self::connection).
/// - **Conflicts.** A call that loses a conflict (a serialization failure or a deadlock) is rolled back, and the client
///   is told to retry with `ABORTED`, if the layer learns of it: the handler answers with the error as the source of its
///   [`Status`](tonic::Status), as [`TransactionError`] does, or [notes](Self::note) it. sqlx does not tell by itself.
/// - **Neither `COMMIT` nor `ROLLBACK`.** The layer ends the transaction. If the handler does, or answers with success after a
///   failed statement, the call is refused with `INTERNAL`.
/// - **Without a key**, a call to a transactional procedure gets a transaction too, but no record.
#[derive(Clone)]
pub struct Transaction {
    session: Arc<Exclusive<Sqlx>>,
}

impl Transaction {
    /// Returns the transaction of the call that the request belongs to.
    ///
    /// # Errors
    ///
    /// [`Missing`](tonic_idempotency::store::TransactionErrorKind::Missing) if the procedure is not transactional, or the store of the
    /// layer is not a [`SqlxStore`](crate::SqlxStore).
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
        Ok(Self { session: Exclusive::from_extensions(extensions)? })
    }

    /// Waits until no other handle has the connection, and takes it until the guard is dropped. A task that has it, and asks for
    /// it again, waits for itself.
    ///
    /// # Errors
    ///
    /// [`Ended`](tonic_idempotency::store::TransactionErrorKind::Ended) if the call has ended.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, nothing has happened. If the future of a statement is dropped before the answer has come, the
    /// server may execute the statement all the same; its error, if it has one, comes out of the next statement.
    pub async fn connection(&self) -> Result<TransactionConnection, TransactionError> {
        Ok(TransactionConnection::new(self.session.lock().await?))
    }

    /// Notes a conflict, if this error is a serialization failure or a deadlock: the call is rolled back, and the client is told to retry,
    /// whatever the handler answers. For a handler whose [`Status`](tonic::Status) does not have the error as its source. Not for an
    /// error in a savepoint that is rolled back.
    ///
    /// ```
    /// use tonic::Status;
    /// use tonic_idempotency_sqlx::Transaction;
    ///
    /// fn internal(transaction: &Transaction, error: sqlx::Error) -> Status {
    ///     transaction.note(&error);
    ///     Status::internal("something is wrong")
    /// }
    /// ```
    pub fn note(&self, error: &sqlx::Error) {
        self.session.note(error);
    }

    /// Begins a transaction without a call, for a handler that a cron job, a consumer of a queue or a test calls directly. There is
    /// no key, no record and no user; the caller commits. The database needs the migrations of `tonic-idempotency`,
    /// in the schema with the default name; [`begin_on`](Self::begin_on) takes another schema.
    ///
    /// ```no_run
    /// use tonic::{Request, Response, Status};
    /// use tonic_idempotency_sqlx::Transaction;
    ///
    /// # struct Orders;
    /// # impl Orders { async fn create_order(&self, r: Request<String>) -> Result<Response<String>, Status> { Ok(Response::new(r.into_inner())) } }
    /// async fn nightly(orders: &Orders, pool: &sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
    ///     let transaction = Transaction::begin(pool).await?;
    ///     let mut request = Request::new("standing order".to_owned());
    ///     transaction.hand_out(request.extensions_mut());
    ///     orders.create_order(request).await?;
    ///     transaction.commit().await?;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the database cannot be asked, or refuses. Nothing was done then.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no transaction is left open.
    pub async fn begin(pool: &PgPool) -> Result<OwnedTransaction, StoreError> {
        Self::begin_on(&SqlxStore::new(pool.clone(), ResourceTypes::none()), &CallSession::default()).await
    }

    /// Begins a transaction without a call on a store: with its schema, its timeout and its pool of transactions, for this user and with these
    /// settings, which row-level security sees. Among the transactions that the store has at once, it counts as one of a call without a user.
    ///
    /// ```no_run
    /// use tonic_idempotency::{Caller, store::{CallSession, StoreError}};
    /// use tonic_idempotency_sqlx::{SqlxStore, Transaction};
    ///
    /// # async fn work() {}
    /// async fn on_behalf_of(caller: &Caller, store: &SqlxStore) -> Result<(), StoreError> {
    ///     let transaction = Transaction::begin_on(store, &CallSession::of(caller)).await?;
    ///     work().await;
    ///     transaction.commit().await
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`begin`](Self::begin).
    ///
    /// # Cancel safety
    ///
    /// As [`begin`](Self::begin).
    pub async fn begin_on(store: &SqlxStore, session: &CallSession) -> Result<OwnedTransaction, StoreError> {
        Owned::begin(store, session, Self::from_extensions).await
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").finish_non_exhaustive()
    }
}
