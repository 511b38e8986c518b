//! The handler's handle of a transaction that is [`Exclusive`].

use std::{error::Error, fmt, sync::Arc};

use http::Extensions;
use tonic::Request;

use super::{
    exclusive::{Exclusive, Guard},
    owned::Owned,
};
use crate::store::{
    CallSession, ResourceTypes, SqlStore, StoreError, TransactionErrorKind,
    sql::driver::{Driver, Session as _},
};

/// A driver whose transactions are [`Exclusive`], with the types that their handlers see.
pub trait ExclusiveDriver: Driver<Session = Exclusive<Self>> {
    /// The error of the client library.
    type Error: Error + 'static;

    /// The connection of a transaction, as its handler borrows it.
    type TransactionConnection: From<Guard<Self>>;

    /// The error of a transaction, or of a statement in it.
    type TransactionError: From<TransactionErrorKind> + Error + Send + Sync + 'static;
}

/// The transaction of a call to a transactional procedure, of which one handle at a time has the connection. A driver's crate has a name
/// and an example for it.
///
/// The handler's writes, the record of the key and the id of the created resource are committed together after the handler has returned, or
/// not at all. An error, a panic, a lost connection or a crash leaves nothing behind.
///
/// - **Row-level security.** The setting `app.current_user_id` holds the call's user for this transaction, if the user's id
///   is a UUID. `session_settings` of the layer's builder sets others, such as the tenant.
/// - **Clones** are handles of the same transaction. One at a time has its [`connection`](Self::connection).
/// - **Neither `COMMIT` nor `ROLLBACK`.** The layer ends the transaction. If the handler does, or answers with success after a
///   failed statement, the call is refused with `INTERNAL`.
/// - **Without a key**, a call to a transactional procedure gets a transaction too, but no record.
pub struct ExclusiveTransaction<D: ExclusiveDriver> {
    session: Arc<Exclusive<D>>,
}

impl<D: ExclusiveDriver> ExclusiveTransaction<D> {
    /// Returns the transaction of the call that the request belongs to.
    ///
    /// # Errors
    ///
    /// [`TransactionErrorKind::Missing`] if the procedure is not transactional, or the store of the layer is not one on this driver.
    pub fn from_request<T>(request: &Request<T>) -> Result<Self, D::TransactionError> {
        Self::from_extensions(request.extensions())
    }

    /// Returns the transaction of a call whose handler has no tonic request. The extensions are those of its
    /// `http::Request`, or of the `RequestContext` of `connectrpc`.
    ///
    /// # Errors
    ///
    /// As [`from_request`](Self::from_request).
    pub fn from_extensions(extensions: &Extensions) -> Result<Self, D::TransactionError> {
        Ok(Self { session: Exclusive::from_extensions(extensions)? })
    }

    /// Waits until no other handle has the connection, and takes it until the guard is dropped. A task that has it, and asks for
    /// it again, waits for itself.
    ///
    /// # Errors
    ///
    /// [`TransactionErrorKind::Ended`] if the call has ended.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, nothing has happened.
    pub async fn connection(&self) -> Result<D::TransactionConnection, D::TransactionError> {
        Ok(self.session.lock().await?.into())
    }

    /// Notes a conflict, if this error is a serialization failure or a deadlock: the call is rolled back, and the client is told to retry,
    /// whatever the handler answers. For a handler whose [`Status`](tonic::Status) does not have the error as its source. Not for an
    /// error in a savepoint that is rolled back.
    pub fn note(&self, error: &D::Error) {
        self.session.note(error);
    }

    /// Begins a transaction without a call, for a handler that a cron job, a consumer of a queue or a test calls directly. There is
    /// no key, no record and no user; the caller commits. The database needs the migrations of `tonic-idempotency`,
    /// in the schema with the default name; [`begin_on`](Self::begin_on) takes another schema.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the database cannot be asked, or refuses. Nothing was done then.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no transaction is left open.
    pub async fn begin(pool: impl Into<D>) -> Result<Owned<Self>, StoreError> {
        Self::begin_on(&SqlStore::new(pool, ResourceTypes::none()), &CallSession::default()).await
    }

    /// Begins a transaction without a call on a store: with its schema, its timeout and its pool of transactions, for this user and with these
    /// settings, which row-level security sees. Among the transactions that the store has at once, it counts as one of a call without a user.
    ///
    /// # Errors
    ///
    /// As [`begin`](Self::begin).
    ///
    /// # Cancel safety
    ///
    /// As [`begin`](Self::begin).
    pub async fn begin_on(store: &SqlStore<D>, session: &CallSession) -> Result<Owned<Self>, StoreError> {
        Owned::begin(store, session, Self::from_extensions).await
    }
}

impl<D: ExclusiveDriver> Clone for ExclusiveTransaction<D> {
    fn clone(&self) -> Self {
        Self { session: Arc::clone(&self.session) }
    }
}

impl<D: ExclusiveDriver> fmt::Debug for ExclusiveTransaction<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").finish_non_exhaustive()
    }
}
