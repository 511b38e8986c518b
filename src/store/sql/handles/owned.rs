//! Transactions without a call, for any driver.

use std::{error::Error, fmt, ops::Deref};

use http::Extensions;

use crate::{
    nesting::Nesting,
    store::{
        CallSession, SqlStore, Store as _, StoreError, StoreErrorKind, StoreTransaction, TransactionOptions,
        sql::driver::Driver,
    },
};

/// A transaction that its owner commits. Dropping it rolls back.
///
/// `T` is the handle that handlers have.
pub struct Owned<T> {
    handle: T,
    open: Box<dyn StoreTransaction>,
}

impl<T> Owned<T> {
    /// Begins a transaction without a key on a store, for the authors of drivers. `handle` finds the handle in extensions.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the database cannot be asked, or refuses. Nothing was done then.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no transaction is left open.
    pub async fn begin<D, E>(
        store: &SqlStore<D>,
        session: &CallSession,
        handle: impl FnOnce(&Extensions) -> Result<T, E>,
    ) -> Result<Self, StoreError>
    where
        D: Driver,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let pool = store.transaction_capacity().map_or(0, |capacity| capacity.pool);
        let inside = Nesting::current().map_or(0, |around| around.inside(pool));
        let options = TransactionOptions { inside, ..TransactionOptions::default() };
        let open = store.begin_without_key(None, session, options).await?;
        let mut extensions = Extensions::new();
        open.hand_out(&mut extensions);
        let handle = handle(&extensions).map_err(|error| StoreError::new(StoreErrorKind::Refused, error))?;
        Ok(Self { handle, open })
    }

    /// Puts the transaction into the extensions of a request, from which the handler takes its handle.
    pub fn hand_out(&self, extensions: &mut Extensions) {
        self.open.hand_out(extensions);
    }

    /// Invalidates all handles, and commits.
    ///
    /// # Errors
    ///
    /// [`StoreErrorKind::Conflict`] if the transaction has lost against another transaction: it may succeed if it is tried again.
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

impl<T> Deref for Owned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.handle
    }
}

impl<T: fmt::Debug> fmt::Debug for Owned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owned").field("handle", &self.handle).finish_non_exhaustive()
    }
}
