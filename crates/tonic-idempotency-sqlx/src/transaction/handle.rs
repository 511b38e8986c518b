//! The handle by which a handler uses its call's transaction.

use tonic_idempotency::store::driver::{ExclusiveDriver, ExclusiveTransaction, Owned};

use super::TransactionConnection;
use crate::{driver::Sqlx, transaction_error::TransactionError};

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
/// **Conflicts.** A call that loses a conflict (a serialization failure or a deadlock) is rolled back. If the layer
/// learns of the conflict, it tells the client to retry, with `ABORTED`. sqlx does not report the conflict to the layer
/// by itself, so the handler does it in one of two ways. It answers with the error as the source of its
/// [`Status`](tonic::Status), as [`TransactionError`] does. Or it [notes](ExclusiveTransaction::note) the error.
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
///
/// Its methods, and the rules for its handlers, are those of [`ExclusiveTransaction`].
pub type Transaction = ExclusiveTransaction<Sqlx>;

/// A transaction that its owner commits. Dropping it rolls back.
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
/// On behalf of a caller:
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
pub type OwnedTransaction = Owned<Transaction>;

impl ExclusiveDriver for Sqlx {
    type Error = sqlx::Error;
    type TransactionConnection = TransactionConnection;
    type TransactionError = TransactionError;
}
