//! Begins transactions without a call, for handlers that are called directly.

use deadpool_postgres::Pool;

use super::transaction::Transaction;
use crate::store::{CallSession, PostgresStore, ResourceTypes, StoreError, driver::Owned};

/// A transaction that its owner commits. Dropping it rolls back.
pub type OwnedTransaction = Owned<Transaction>;

impl Transaction {
    /// Begins a transaction without a call, for a handler that a cron job, a consumer of a queue or a test calls directly. There is
    /// no key, no record and no user; the caller commits. The database needs the [migrations](crate::migrations),
    /// in the schema with the default name; [`begin_on`](Self::begin_on) takes a store with other names.
    ///
    /// ```no_run
    /// use tonic::{Request, Response, Status};
    /// use tonic_idempotency::{Transaction, store::StoreError};
    ///
    /// # struct Orders;
    /// # impl Orders { async fn create_order(&self, r: Request<String>) -> Result<Response<String>, Status> { Ok(Response::new(r.into_inner())) } }
    /// async fn nightly(orders: &Orders, pool: &deadpool_postgres::Pool) -> Result<(), Box<dyn std::error::Error>> {
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
    pub async fn begin(pool: &Pool) -> Result<OwnedTransaction, StoreError> {
        Self::begin_on(&PostgresStore::new(pool.clone(), ResourceTypes::none()), &CallSession::default()).await
    }

    /// Begins a transaction without a call on a store: with its schema, its timeout and its pool of transactions, for this user and with these
    /// settings, which row-level security sees. Among the transactions that the store has at once, it counts as one of a call without a user.
    ///
    /// ```no_run
    /// use tonic_idempotency::{Caller, Transaction, store::{CallSession, PostgresStore, StoreError}};
    ///
    /// # async fn work() {}
    /// async fn on_behalf_of(caller: &Caller, store: &PostgresStore) -> Result<(), StoreError> {
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
    pub async fn begin_on(store: &PostgresStore, session: &CallSession) -> Result<OwnedTransaction, StoreError> {
        Owned::begin(store, session, Self::from_extensions).await
    }
}
