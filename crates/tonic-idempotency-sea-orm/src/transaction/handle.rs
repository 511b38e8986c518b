//! The handle by which a handler uses its call's transaction.

use std::{fmt, sync::Arc};

use http::Extensions;
use sea_orm::{DatabaseConnection, DbErr};
use tonic::Request;
use tonic_idempotency::store::{
    CallSession, ResourceTypes, StoreError, StoreErrorKind,
    driver::{Level, Owned, Session as _},
};

use crate::{driver::SeaOrmStore, pool::SeaOrm, session::SeaOrmSession, transaction_error::TransactionError};

/// A transaction that its owner commits. Dropping it rolls back. `&*transaction` is the [`Transaction`], for statements.
pub type OwnedTransaction = Owned<Transaction>;

/// The transaction of a call to a transactional procedure. The handler's writes, the record of the key and the id of
/// the created resource are committed together after the handler has returned, or not at all. An error, a panic, a lost
/// connection or a crash leaves nothing behind.
///
/// It stands in the place of a [`DatabaseConnection`]: it is a [`ConnectionTrait`](sea_orm::ConnectionTrait) and a
/// [`TransactionTrait`](sea_orm::TransactionTrait).
///
/// ```
/// use sea_orm::{ConnectionTrait, DbBackend, Statement};
/// use tonic::{Request, Response, Status};
/// use tonic_idempotency_sea_orm::{Transaction, TransactionError};
///
/// # struct CreateOrderRequest { name: String }
/// # struct CreateOrderResponse { order_id: String }
/// async fn create_order(request: Request<CreateOrderRequest>) -> Result<Response<CreateOrderResponse>, Status> {
///     let db = Transaction::from_request(&request)?; // instead of a DatabaseConnection
///     let order = insert(&db, request.into_inner().name).await?;
///     Ok(Response::new(CreateOrderResponse { order_id: order.to_string() })) // no COMMIT: the layer commits
/// }
///
/// /// A repository, which knows nothing of calls.
/// async fn insert(db: &impl ConnectionTrait, name: String) -> Result<i64, TransactionError> {
///     let insert = "INSERT INTO orders (name) VALUES ($1) RETURNING id";
///     let row = db.query_one_raw(Statement::from_sql_and_values(DbBackend::Postgres, insert, [name.into()])).await?;
///     Ok(row.ok_or(sea_orm::DbErr::RecordNotInserted)?.try_get("", "id")?)
/// }
/// ```
///
/// - **Row-level security.** The setting `app.current_user_id` holds the call's user for this transaction, if the user's id
///   is a UUID. `session_settings` of the layer's builder sets others, such as the tenant.
/// - **Clones** are handles of the same transaction. One at a time has the connection, for one statement.
/// - **Nested transactions** are [`Savepoint`](crate::Savepoint)s.
/// - **Conflicts.** A call that loses a conflict (a serialization failure or a deadlock) is rolled back, and the client
///   is told to retry with `ABORTED`, whatever the handler answers, unless the statement was in a nested transaction that is rolled back.
/// - **Neither `COMMIT` nor `ROLLBACK`** in SQL. The layer ends the transaction. If the handler does, or answers with success after a
///   failed statement, the call is refused with `INTERNAL`.
/// - **Without a key**, a call to a transactional procedure gets a transaction too, but no record.
/// - **After the call** a statement fails with a [`DbErr`] whose [`TransactionError`] has the kind
///   [`Ended`](tonic_idempotency::store::TransactionErrorKind::Ended).
///
/// # Cancel safety
///
/// If the future of a statement is dropped before the answer has come, the server may execute the statement all the same. The next
/// statement waits for that answer.
#[derive(Clone)]
pub struct Transaction {
    pub(super) session: Arc<SeaOrmSession>,
    /// The savepoint that the handle belongs to, or the transaction itself.
    pub(super) level: Level,
}

impl Transaction {
    pub(crate) fn new(session: Arc<SeaOrmSession>, level: Level) -> Self {
        Self { session, level }
    }

    /// Returns the transaction of the call that the request belongs to.
    ///
    /// # Errors
    ///
    /// [`Missing`](tonic_idempotency::store::TransactionErrorKind::Missing) if the procedure is not transactional, or the store of the
    /// layer is not a [`SeaOrmStore`](crate::SeaOrmStore).
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
        Ok(Self::new(SeaOrmSession::from_extensions(extensions)?, Level::TRANSACTION))
    }

    /// Notes a conflict, if this error is a serialization failure or a deadlock: the call is rolled back, and the client is told to retry,
    /// whatever the handler answers. For the error of a statement on another connection; those of this transaction are noted anyway.
    pub fn note(&self, error: &DbErr) {
        self.session.note(error);
    }

    /// Begins a transaction without a call, for a handler that a cron job, a consumer of a queue or a test calls directly. There is
    /// no key, no record and no user; the caller commits. The database needs the migrations of `tonic-idempotency`,
    /// in the schema with the default name; [`begin_on`](Self::begin_on) takes another schema.
    ///
    /// ```no_run
    /// use sea_orm::DatabaseConnection;
    /// use tonic::{Request, Response, Status};
    /// use tonic_idempotency_sea_orm::Transaction;
    ///
    /// # struct Orders;
    /// # impl Orders { async fn create_order(&self, r: Request<String>) -> Result<Response<String>, Status> { Ok(Response::new(r.into_inner())) } }
    /// async fn nightly(orders: &Orders, database: &DatabaseConnection) -> Result<(), Box<dyn std::error::Error>> {
    ///     let transaction = Transaction::begin(database).await?;
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
    /// [`StoreError`] if the database cannot be asked, refuses, or is not a PostgreSQL. Nothing was done then.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no transaction is left open.
    pub async fn begin(database: &DatabaseConnection) -> Result<OwnedTransaction, StoreError> {
        let driver = SeaOrm::new(database).map_err(|error| StoreError::new(StoreErrorKind::Refused, error))?;
        Self::begin_on(&SeaOrmStore::new(driver, ResourceTypes::none()), &CallSession::default()).await
    }

    /// Begins a transaction without a call on a store: with its schema, its timeout and its pool of transactions, for this user and with these
    /// settings, which row-level security sees. Among the transactions that the store has at once, it counts as one of a call without a user.
    ///
    /// ```no_run
    /// use tonic_idempotency::{Caller, store::{CallSession, StoreError}};
    /// use tonic_idempotency_sea_orm::{SeaOrmStore, Transaction};
    ///
    /// # async fn work() {}
    /// async fn on_behalf_of(caller: &Caller, store: &SeaOrmStore) -> Result<(), StoreError> {
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
    pub async fn begin_on(store: &SeaOrmStore, session: &CallSession) -> Result<OwnedTransaction, StoreError> {
        Owned::begin(store, session, Self::from_extensions).await
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").finish_non_exhaustive()
    }
}
