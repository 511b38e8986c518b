//! The transaction of a handler, shared by its handles: the trait [`Session`].

use std::{error::Error, fmt, sync::Arc};

use http::Extensions;
use tokio::time::Instant;

use super::{ConnectionPool, Usage};
use crate::store::{RollBackOutcome, TransactionErrorKind, sql::transaction::InTransaction};

/// A transaction, as the handler sees it: its handles share the connection until the call ends.
///
/// If the last handle is dropped without [`end`](Self::end), the connection is dropped with it, and the transaction is rolled
/// back.
pub trait Session: fmt::Debug + Send + Sync + Sized + 'static {
    /// The pool of the connection.
    type Pool: ConnectionPool;

    /// Makes a session from a connection on which a transaction was begun.
    fn new(connection: InTransaction<Self::Pool>) -> Self;

    /// Puts the session into the extensions of the handler's request.
    fn hand_out(self: &Arc<Self>, extensions: &mut Extensions) {
        extensions.insert(Arc::clone(self));
    }

    /// Returns the session of the call that a request with these extensions belongs to, for the handles of a driver.
    ///
    /// # Errors
    ///
    /// [`TransactionErrorKind::Missing`] if there is none.
    fn from_extensions(extensions: &Extensions) -> Result<Arc<Self>, TransactionErrorKind> {
        extensions.get().map(Arc::clone).ok_or(TransactionErrorKind::Missing)
    }

    /// Returns whether and how long the handler has used the connection.
    fn usage(&self) -> &Usage;

    /// Returns whether a statement has lost against another transaction, apart from those of which only the statement was rolled back. `answer` is
    /// the error that the handler has answered with, with its sources.
    fn is_in_conflict(&self, answer: Option<&(dyn Error + 'static)>) -> bool;

    /// Returns whether a statement may have failed without being noticed.
    fn has_unanswered(&self) -> bool;

    /// Returns the SQL of a rollback to a savepoint that has to come before COMMIT, if one has to.
    fn roll_back_due(&self) -> Option<String> {
        None
    }

    /// Ends the session, and takes the connection away from the handles; `None` if a statement does not release it in time.
    fn end(&self, deadline: Instant) -> impl Future<Output = Option<InTransaction<Self::Pool>>> + Send;

    /// Ends the session, and rolls back.
    fn roll_back(self: Arc<Self>, deadline: Instant) -> impl Future<Output = RollBackOutcome> + Send;

    /// Ends the session at once, and rolls back in the background.
    fn abort(self: &Arc<Self>, deadline: Instant);
}
