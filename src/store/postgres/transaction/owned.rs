//! [`OwnedTransaction`].

use std::{fmt, ops::Deref};

use deadpool_postgres::Pool;
use http::Extensions;

use super::Transaction;
use crate::store::{
    CallSession, PostgresStore, ResourceTypes, Store as _, StoreError, StoreErrorKind, StoreTransaction,
    TransactionOptions,
};

impl Transaction {
    /// Begins a transaction without a call, for a handler that a cron job, a consumer of a queue or a test calls directly. There is
    /// no key, no record and no user; the caller commits. The database needs the [migrations](crate::migrations).
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
        Self::begin_for(pool, &CallSession::default()).await
    }

    /// As [`begin`](Self::begin), for this user and with these settings, which row-level security sees.
    ///
    /// # Errors
    ///
    /// As [`begin`](Self::begin).
    pub async fn begin_for(pool: &Pool, session: &CallSession) -> Result<OwnedTransaction, StoreError> {
        let store = PostgresStore::new(pool.clone(), ResourceTypes::none()).transaction_pool(pool.clone());
        let open = store.begin_without_key(None, session, TransactionOptions::default()).await?;
        let mut extensions = Extensions::new();
        open.hand_out(&mut extensions);
        let transaction =
            Self::from_extensions(&extensions).map_err(|error| StoreError::new(StoreErrorKind::Refused, error))?;
        Ok(OwnedTransaction { transaction, open })
    }
}

/// A transaction that its owner commits. Dropping it rolls back.
pub struct OwnedTransaction {
    transaction: Transaction,
    open: Box<dyn StoreTransaction>,
}

impl OwnedTransaction {
    /// Puts a handle of the transaction into the extensions of a request, where the handler finds it.
    pub fn hand_out(&self, extensions: &mut Extensions) {
        self.open.hand_out(extensions);
    }

    /// Invalidates all handles, and commits.
    ///
    /// # Errors
    ///
    /// [`StoreErrorKind::Conflict`] if the transaction has lost against another one: it may succeed if it is tried again.
    /// [`StoreErrorKind::Interrupted`] if the answer was lost: it is not known whether it was committed. After any other error
    /// nothing was committed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the transaction may have been committed or not.
    pub async fn commit(self) -> Result<(), StoreError> {
        if self.open.is_in_conflict(None) {
            return Err(StoreErrorKind::Conflict.into());
        }
        self.open.commit(None).await.map(drop)
    }

    /// Invalidates all handles, and rolls back.
    pub async fn roll_back(self) {
        self.open.roll_back().await;
    }
}

impl Deref for OwnedTransaction {
    type Target = Transaction;

    fn deref(&self) -> &Transaction {
        &self.transaction
    }
}

impl fmt::Debug for OwnedTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedTransaction").field("transaction", &self.transaction).finish_non_exhaustive()
    }
}
