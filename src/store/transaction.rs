//! Transactions that hold a key.

use std::{fmt, pin::Pin};

use super::{ClaimOutcome, Completion, StoreError};
use crate::policy::Isolation;

/// How a transaction is begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "built by the authors of stores, in stores and in their tests")]
pub struct TransactionOptions {
    /// Its isolation level.
    pub isolation: Isolation,
    /// Whether an error is to be recorded without what the handler wrote, which takes a savepoint.
    pub savepoint: bool,
}

/// What came of beginning a transaction with a claim.
#[derive(Debug)]
#[non_exhaustive]
pub enum BeginOutcome {
    /// The key is this transaction's.
    Open {
        /// The transaction.
        transaction: Box<dyn StoreTransaction>,
        /// Whether a call that held the key before ended its lease without an outcome.
        taken_over: bool,
    },
    /// Something stands in the way, as with [`claim`](super::Store::claim). No transaction is open.
    Refused(ClaimOutcome),
}

/// A transaction that a handler writes in. Dropped, it is rolled back, and its connection closed.
pub trait StoreTransaction: fmt::Debug + Send {
    /// Puts what the handler writes with into the request's extensions.
    fn hand_out(&self, extensions: &mut http::Extensions);

    /// Whether the handler wrote with it, or read.
    fn was_used(&self) -> bool;

    /// Whether a statement lost against another transaction, so that the same call may succeed later.
    fn is_in_conflict(&self) -> bool;

    /// Takes away what the handler was given, and commits what it wrote together with the record: with `None` only what it
    /// wrote, with an error only the record. One network round trip.
    ///
    /// # Errors
    ///
    /// [`StoreError`] where nothing was committed; where that is not known, of the kind
    /// [`Interrupted`](super::StoreErrorKind::Interrupted).
    ///
    /// # Cancel safety
    ///
    /// Dropped, it may have been committed or not.
    fn commit(
        self: Box<Self>,
        completion: Option<Completion>,
    ) -> Pin<Box<dyn Future<Output = Result<CommitOutcome, StoreError>> + Send>>;

    /// Takes away what the handler was given, and rolls back what it wrote. Nobody has to wait for that.
    fn roll_back(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// What came of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommitOutcome {
    /// What the handler wrote is committed, and the record with it.
    Committed,
    /// Another call with this key is recorded: nothing of this one is left.
    Superseded,
}
