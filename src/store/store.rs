//! The operations of a store, and the guarantees that it gives: the trait [`Store`].

use std::time::Duration;

use super::{
    AbandonOutcome, AbandonedKey, AbandonedQuery, BeginOutcome, CallSession, Claim, ClaimOutcome, CompleteOutcome,
    Completion, ExtendOutcome, KeyRecord, LookUp, ReleaseOutcome, Reservation, ResourceTypes, ServerClock, StoreError,
    StoreErrorKind, StoreSettings, StoreTransaction, TransactionCapacity, TransactionOptions,
};
use crate::{
    caller::OwnerId,
    status::{OutboxStatus, Resource},
};

/// A store of the records of idempotency keys: at most one record for each owner and key.
///
/// ```text
///             claim                    complete
///  (absent) ─────────▶ reserved ───────────────────▶ completed ──expires──▶ (absent)
///     ▲                  │  │ lease ended, no outcome
///     │   release        │  └────▶ run again, refuse, or reconcile (LeasePolicy)
///     └──────────────────┘
/// ```
///
/// Every store guarantees the following. The tests in `store::conformance` (feature `conformance`) check it.
///
/// - **One owner.** Exactly one of any number of concurrent claims acquires an absent key. The decision is one atomic
///   step, never a look-up followed by an insert.
/// - **Fencing.** Only the token that holds the reservation can complete, extend, release or abandon it. Any other
///   token changes nothing, and the outcome says so.
/// - **A completed record is final.** Nothing but an operator changes or deletes it until it expires.
/// - **An unknown outcome is not run again.** An abandoned reservation is taken over for reconciliation, or not at all.
/// - **An expired record counts as absent**, even before it is swept. The next claim replaces it.
/// - **One clock**, the store's own, decides leases and expiry.
/// - **Owners are isolated.** An operation of one owner neither reads nor changes another owner's record.
/// - **Operations are idempotent.** If an answer was lost, the operation can be repeated with the same token. A claim
///   returns the same outcome again, also after its lease has ended; but never gets a record that its own token has
///   released or abandoned: it comes late. A completion returns [`AlreadyCompleted`](CompleteOutcome::AlreadyCompleted), a
///   release [`NotHeld`](ReleaseOutcome::NotHeld), and neither changes anything.
///
/// # Cancel safety
///
/// An operation whose future is dropped may have been carried out or not. It leaves no transaction and no lock behind.
pub trait Store: Send + Sync + 'static {
    /// Reserves a key for the caller, or returns why it cannot. One network round trip.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store does not answer, or refuses. The operation may have been carried out all the same:
    /// [`StoreError::may_have_happened`].
    fn claim(&self, claim: &Claim) -> impl Future<Output = Result<ClaimOutcome, StoreError>> + Send;

    /// Renews the caller's reservation, even if its lease has ended already: the new lease ends `lease` from now.
    ///
    /// # Errors
    ///
    /// As [`claim`](Self::claim).
    fn extend(
        &self,
        reservation: &Reservation,
        lease: Duration,
    ) -> impl Future<Output = Result<ExtendOutcome, StoreError>> + Send;

    /// Turns the caller's reservation into a completed record. One network round trip.
    ///
    /// # Errors
    ///
    /// As [`claim`](Self::claim).
    fn complete(
        &self,
        reservation: &Reservation,
        completion: &Completion,
    ) -> impl Future<Output = Result<CompleteOutcome, StoreError>> + Send;

    /// Deletes the caller's reservation, so that the key can be claimed again. A reservation that the caller has taken
    /// over is not deleted: its lease ends, and the [`LeasePolicy`](crate::policy::LeasePolicy) of the next claim
    /// decides.
    ///
    /// # Errors
    ///
    /// As [`claim`](Self::claim).
    fn release(&self, reservation: &Reservation) -> impl Future<Output = Result<ReleaseOutcome, StoreError>> + Send;

    /// Ends the caller's lease without an outcome: it is not known whether the call took effect, so it must not be run
    /// again.
    ///
    /// # Errors
    ///
    /// As [`claim`](Self::claim).
    fn abandon(&self, reservation: &Reservation) -> impl Future<Output = Result<AbandonOutcome, StoreError>> + Send;

    /// Finds reservations of all owners whose leases ended without an outcome. Returns the oldest first.
    ///
    /// # Errors
    ///
    /// As [`claim`](Self::claim).
    fn abandoned(&self, search: &AbandonedQuery) -> impl Future<Output = Result<Vec<AbandonedKey>, StoreError>> + Send;

    /// Deletes at most `batch` expired records of all owners, and returns the number of deleted records.
    ///
    /// # Errors
    ///
    /// As [`claim`](Self::claim).
    fn sweep(&self, batch: u32) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// Returns the newest status of the asynchronous work behind a resource, as the session's user sees it; `None` if it has no
    /// status.
    ///
    /// # Errors
    ///
    /// As [`claim`](Self::claim).
    fn status(
        &self,
        session: &CallSession,
        resource: &Resource,
    ) -> impl Future<Output = Result<Option<OutboxStatus>, StoreError>> + Send;

    /// Returns the state of the call with a key. Changes nothing: no claim, completion or transaction has another outcome because of
    /// it. A key that a [transaction](Self::begin) holds is [`Running`](super::KeyState::Running), though it may have no record.
    /// One network round trip.
    ///
    /// # Errors
    ///
    /// As [`claim`](Self::claim). By default, always [`StoreErrorKind::Refused`]: an
    /// `OperationService` cannot answer then.
    fn look_up(&self, look_up: &LookUp) -> impl Future<Output = Result<KeyRecord, StoreError>> + Send {
        let _ = look_up;
        std::future::ready(Err(StoreErrorKind::Refused.into()))
    }

    /// Returns whether the store can limit the records of a caller ([`Limits::records`](crate::policy::Limits::records)). Defaults to
    /// `false`: a layer with that limit cannot be built then.
    fn limits_records(&self) -> bool {
        false
    }

    /// Returns how many transactions the store has at once, with the settings of the layer. Defaults to `None`: they wait for no other ones.
    fn transaction_capacity(&self) -> Option<TransactionCapacity> {
        None
    }

    /// Takes over the settings of the layer that the store keeps. The layer calls it once, when it is built. Clones of a store share them.
    /// By default they are ignored.
    fn set_up(&self, settings: &StoreSettings) {
        let _ = settings;
    }

    /// Returns the resource types that the store can record. Defaults to `None`: it can record any, and knows
    /// the status of all.
    fn resource_types(&self) -> Option<&ResourceTypes> {
        None
    }

    /// Returns whether the store knows the status of the work behind the resources that it records. Defaults to `true`. If it does not,
    /// [`status`](Self::status) is always `None`, and a layer with a procedure that creates a tracked resource needs a
    /// [`status_resolver`](crate::layer::IdempotencyLayerBuilder::status_resolver).
    fn has_statuses(&self) -> bool {
        true
    }

    /// Returns whether expired records disappear by themselves, so that there is nothing to [`sweep`](Self::sweep), and a look-up never
    /// finds [`Expired`](super::KeyState::Expired). Defaults to `false`.
    fn forgets_expired(&self) -> bool {
        false
    }

    /// Returns the clock that decides leases, if the store reads it off its answers. If it jumps ahead, a process renews all of its leases at
    /// once. Defaults to `None`.
    fn server_clock(&self) -> Option<&ServerClock> {
        None
    }

    /// Returns whether the store supports [`begin`](Self::begin). Defaults to `false`: a layer with a transactional
    /// procedure cannot be built then.
    fn has_transactions(&self) -> bool {
        false
    }

    /// Begins a transaction for the handler and claims a key in it, or returns why it cannot. One network round trip.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store does not answer, or refuses. Nothing was done then. By default, always
    /// [`StoreErrorKind::Refused`].
    fn begin(
        &self,
        claim: &Claim,
        options: TransactionOptions,
    ) -> impl Future<Output = Result<BeginOutcome, StoreError>> + Send {
        let _ = (claim, options);
        std::future::ready(Err(StoreErrorKind::Refused.into()))
    }

    /// Begins a transaction for a call without a key to a transactional procedure. The handler's writes are committed
    /// or rolled back, and no record is written. `owner` is `None` if no user is authenticated.
    ///
    /// # Errors
    ///
    /// As [`begin`](Self::begin).
    fn begin_without_key(
        &self,
        owner: Option<OwnerId>,
        session: &CallSession,
        options: TransactionOptions,
    ) -> impl Future<Output = Result<Box<dyn StoreTransaction>, StoreError>> + Send {
        let _ = (owner, session, options);
        std::future::ready(Err(StoreErrorKind::Refused.into()))
    }
}
