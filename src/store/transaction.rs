//! The transactions of handlers, as the engine sees them.

use std::{error::Error, fmt, pin::Pin, time::Duration};

use super::{ClaimOutcome, Completion, StoreError};
use crate::policy::{Isolation, Policies};

/// The options of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "built by the authors of stores, in stores and in their tests")]
pub struct TransactionOptions {
    /// The time for which the transaction may be idle: the store ends it then.
    pub idle: Duration,
    /// The isolation level.
    pub isolation: Isolation,
    /// Whether to set a savepoint before the handler runs, so that its writes can be rolled back when its final error
    /// is recorded.
    pub savepoint: bool,
    /// How many transactions of the same [pool](TransactionCapacity::pool) the handlers around it have, which end after it: it must not wait for one
    /// of them. `0` if it is not inside of any; at most two are counted.
    pub inside: u8,
}

/// How many transactions a store has at once: [`Store::transaction_capacity`](super::Store::transaction_capacity).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "built by stores")]
pub struct TransactionCapacity {
    /// The number of the pool that their connections are of, in this process: the same for all stores that share it. Not 0.
    pub pool: u32,
    /// How many transactions one caller may have at once.
    pub of_a_caller: usize,
}

/// The options that follow from [`Policies::default`], without a savepoint.
impl Default for TransactionOptions {
    fn default() -> Self {
        let Policies { isolation, transaction_idle, .. } = Policies::default();
        Self { idle: transaction_idle, isolation, savepoint: false, inside: 0 }
    }
}

/// The outcome of beginning a transaction with a claim.
#[derive(Debug)]
#[non_exhaustive]
pub enum BeginOutcome {
    /// The transaction is open, and holds the key.
    Open {
        /// The transaction.
        transaction: Box<dyn StoreTransaction>,
        /// Whether the lease of a call that held the key before ended without an outcome.
        taken_over: bool,
    },
    /// The key cannot be claimed; the outcome is that of a [`claim`](super::Store::claim). No transaction is open.
    Refused(ClaimOutcome),
}

/// The state in which a rollback has found its transaction. Nothing is left of it either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RollBackOutcome {
    /// It was open until then.
    RolledBack,
    /// It had been lost with its connection: the same call may succeed later, whatever its handler made of that. The engine refuses it as
    /// unavailable.
    Lost,
}

/// An open transaction of a handler. Dropping it invalidates the handler's handle, and the transaction is rolled back.
pub trait StoreTransaction: fmt::Debug + Send {
    /// Puts the transaction into the extensions of the handler's request, from which the handler takes its handle.
    fn hand_out(&self, extensions: &mut http::Extensions);

    /// Returns whether the handler has used the transaction, for reading or writing.
    fn was_used(&self) -> bool;

    /// Returns how long the transaction was used until now, and how long not; `None`, which is the default, if it keeps nothing from others
    /// meanwhile. A procedure whose transactions idle for longer than they work is logged, once.
    fn times(&self) -> Option<TransactionTimes> {
        None
    }

    /// Returns whether a statement has lost against another transaction: the same call may succeed later. Then the
    /// engine rolls back, whatever the handler answers. Apart from statements that were rolled back, and not their transactions.
    ///
    /// `answer` is the error that the handler has answered with, with its sources, for a store that cannot see the statements of
    /// handlers.
    fn is_in_conflict(&self, answer: Option<&(dyn Error + 'static)>) -> bool;

    /// Invalidates the handler's handle, and commits. One network round trip.
    ///
    /// | `completion` | is committed |
    /// |---|---|
    /// | `None` | what the handler wrote |
    /// | `Some`, with a message or a response that is not stored | what the handler wrote, and the record |
    /// | `Some`, with an error | the record |
    ///
    /// # Errors
    ///
    /// [`StoreError`] if nothing was committed. The kind [`Interrupted`](super::StoreErrorKind::Interrupted) means that this is not known.
    /// [`Conflict`](super::StoreErrorKind::Conflict): the transaction has lost against another transaction.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the transaction may have been committed or not.
    fn commit(
        self: Box<Self>,
        completion: Option<Completion>,
    ) -> Pin<Box<dyn Future<Output = Result<CommitOutcome, StoreError>> + Send>>;

    /// Invalidates the handler's handle, and rolls back what it wrote. The caller does not have to wait for the result.
    fn roll_back(self: Box<Self>) -> Pin<Box<dyn Future<Output = RollBackOutcome> + Send>>;
}

/// How long a transaction was in use, and how long not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "built by the authors of stores; there is no third")]
pub struct TransactionTimes {
    /// The time in which a statement ran, or the handler had the connection to itself.
    pub working: Duration,
    /// The rest, since it was begun.
    pub idle: Duration,
}

/// The outcome of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommitOutcome {
    /// The transaction is committed.
    Committed,
    /// Another call with this key is recorded. This call is rolled back.
    Superseded,
}
