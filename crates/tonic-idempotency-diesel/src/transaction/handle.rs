//! The handle by which a handler uses its call's transaction.

use tonic_idempotency::store::driver::{ExclusiveDriver, ExclusiveTransaction, Owned};

use super::TransactionConnection;
use crate::{driver::Diesel, transaction_error::TransactionError};

/// The transaction of a call to a transactional procedure. The handler's writes, the record of the key and the id of
/// the created resource are committed together after the handler has returned, or not at all. An error, a panic, a lost
/// connection or a crash leaves nothing behind.
///
/// ```
/// use diesel::prelude::*;
/// use diesel_async::RunQueryDsl;
/// use tonic::{Request, Response, Status};
/// use tonic_idempotency_diesel::{Transaction, TransactionError};
///
/// diesel::table! {
///     orders {
///         id -> Uuid,
///         name -> Text,
///     }
/// }
///
/// # struct CreateOrderRequest { name: String }
/// # struct CreateOrderResponse { order_id: String }
/// async fn create_order(request: Request<CreateOrderRequest>) -> Result<Response<CreateOrderResponse>, Status> {
///     let mut connection = Transaction::from_request(&request)?.connection().await?; // instead of a pool
///     let insert = diesel::insert_into(orders::table).values(orders::name.eq(request.into_inner().name)).returning(orders::id);
///     let order: uuid::Uuid = insert.get_result(&mut connection).await.map_err(TransactionError::from)?;
///     Ok(Response::new(CreateOrderResponse { order_id: order.to_string() })) // no COMMIT: the layer commits
/// }
/// ```
///
/// **Conflicts.** A call that loses a conflict (a serialization failure or a deadlock) is rolled back, and the client
/// is told to retry with `ABORTED`. The layer learns of each serialization failure; of a deadlock if the handler answers with the
/// error as the source of its [`Status`](tonic::Status), as [`TransactionError`] does, or [notes](ExclusiveTransaction::note) it.
///
/// ```
/// use tonic::Status;
/// use tonic_idempotency_diesel::Transaction;
///
/// fn internal(transaction: &Transaction, error: diesel::result::Error) -> Status {
///     transaction.note(&error);
///     Status::internal("something is wrong")
/// }
/// ```
///
/// Its methods, and the rules for its handlers, are those of [`ExclusiveTransaction`].
pub type Transaction = ExclusiveTransaction<Diesel>;

/// A transaction that its owner commits. Dropping it rolls back.
///
/// ```no_run
/// use diesel_async::{AsyncPgConnection, pooled_connection::deadpool::Pool};
/// use tonic::{Request, Response, Status};
/// use tonic_idempotency_diesel::Transaction;
///
/// # struct Orders;
/// # impl Orders { async fn create_order(&self, r: Request<String>) -> Result<Response<String>, Status> { Ok(Response::new(r.into_inner())) } }
/// async fn nightly(orders: &Orders, pool: &Pool<AsyncPgConnection>) -> Result<(), Box<dyn std::error::Error>> {
///     let transaction = Transaction::begin(pool.clone()).await?;
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
/// use tonic_idempotency_diesel::{DieselStore, Transaction};
///
/// # async fn work() {}
/// async fn on_behalf_of(caller: &Caller, store: &DieselStore) -> Result<(), StoreError> {
///     let transaction = Transaction::begin_on(store, &CallSession::of(caller)).await?;
///     work().await;
///     transaction.commit().await
/// }
/// ```
pub type OwnedTransaction = Owned<Transaction>;

impl ExclusiveDriver for Diesel {
    type Error = diesel::result::Error;
    type TransactionConnection = TransactionConnection;
    type TransactionError = TransactionError;
}
