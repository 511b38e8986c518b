//! The contract of a store.

use std::time::Duration;

use super::{
    AbandonOutcome, AbandonedKey, AbandonedQuery, BeginOutcome, Claim, ClaimOutcome, CompleteOutcome, Completion,
    ExtendOutcome, ReleaseOutcome, Reservation, ResourceTypes, StoreError, StoreErrorKind, StoreTransaction,
    TransactionOptions,
};
use crate::{
    status::{OutboxStatus, Resource},
    user::UserId,
};

/// Keeps the records of idempotency keys, at most one for a user and a key.
///
/// ```text
///             claim                    complete
///  (absent) ─────────▶ reserved ───────────────────▶ completed ──expires──▶ (absent)
///     ▲                  │  │ lease ended, no outcome
///     │   release        │  └────▶ run again, refuse, or reconcile (policy of the procedure)
///     └──────────────────┘
/// ```
///
/// What every store promises, and `store::conformance` (feature `conformance`) holds it to:
///
/// - **One owner.** Of any number of concurrent claims of an absent key exactly one acquires it; the decision is one
///   atomic step, never a look followed by an insert.
/// - **The token fences.** Only the holder of the token of the live reservation completes or releases it. Whoever lost it
///   is told so, and changes nothing.
/// - **A completed record is final.** Until it expires, nothing changes or deletes it.
/// - **An unknown outcome is not run again.** What was abandoned is taken over to be reconciled, or not at all.
/// - **An expired record is no record**, swept or not: the next claim takes its place.
/// - **One clock**, the store's own, decides leases and expiry.
/// - **Users do not meet.** No operation of one user sees or touches another's record.
/// - **Asked twice is done once.** A claim, a completion or a release that is repeated because its answer was lost gives
///   the answer of the first.
///
/// # Cancel safety
///
/// A future that is dropped may have done its work or not, and leaves nothing open.
pub trait Store: Send + Sync + 'static {
    /// Reserves a key for the caller, or says what stands in the way. One network round trip.
    ///
    /// # Errors
    ///
    /// [`StoreError`] where the store does not answer; see [`StoreError::may_have_happened`].
    fn claim(&self, claim: &Claim) -> impl Future<Output = Result<ClaimOutcome, StoreError>> + Send;

    /// Starts the lease of the caller's reservation anew.
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

    /// Deletes the caller's reservation, so that the key can be claimed again. One that was taken over is not forgotten: its
    /// lease ends, and it can be taken over again, by the policy of whoever claims it.
    ///
    /// # Errors
    ///
    /// As [`claim`](Self::claim).
    fn release(&self, reservation: &Reservation) -> impl Future<Output = Result<ReleaseOutcome, StoreError>> + Send;

    /// Ends the caller's lease without an outcome: whether the call took effect is not known, so that it is not to be run
    /// again.
    ///
    /// # Errors
    ///
    /// As [`claim`](Self::claim).
    fn abandon(&self, reservation: &Reservation) -> impl Future<Output = Result<AbandonOutcome, StoreError>> + Send;

    /// The reservations whose leases ended without an outcome, of any user, oldest first.
    ///
    /// # Errors
    ///
    /// As [`claim`](Self::claim).
    fn abandoned(&self, search: &AbandonedQuery) -> impl Future<Output = Result<Vec<AbandonedKey>, StoreError>> + Send;

    /// Deletes at most `batch` expired records, of any user, and returns how many.
    ///
    /// # Errors
    ///
    /// As [`claim`](Self::claim).
    fn sweep(&self, batch: u32) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// The newest status of the work behind a resource, as the user sees it; `None` where nothing is known.
    ///
    /// # Errors
    ///
    /// As [`claim`](Self::claim).
    fn status(
        &self,
        user: UserId,
        resource: &Resource,
    ) -> impl Future<Output = Result<Option<OutboxStatus>, StoreError>> + Send;

    /// The resource types that can be recorded; `None` where any can.
    fn resource_types(&self) -> Option<&ResourceTypes> {
        None
    }

    /// Whether [`begin`](Self::begin) works. Defaults to `false`: transactional procedures are refused when the layer is
    /// built.
    fn has_transactions(&self) -> bool {
        false
    }

    /// Claims a key for a transaction that the handler is given, or says what stands in the way. One network round trip.
    ///
    /// # Errors
    ///
    /// As [`claim`](Self::claim). Nothing was done then. By default always.
    fn begin(
        &self,
        claim: &Claim,
        options: TransactionOptions,
    ) -> impl Future<Output = Result<BeginOutcome, StoreError>> + Send {
        let _ = (claim, options);
        std::future::ready(Err(StoreErrorKind::Refused.into()))
    }

    /// Begins a transaction without a key, for a call to a transactional procedure that has none: what its handler writes is
    /// committed, or is not, and nothing is recorded. `idle` is how long it may be idle.
    ///
    /// # Errors
    ///
    /// As [`begin`](Self::begin).
    fn begin_without_key(
        &self,
        user: Option<UserId>,
        idle: Duration,
        options: TransactionOptions,
    ) -> impl Future<Output = Result<Box<dyn StoreTransaction>, StoreError>> + Send {
        let _ = (user, idle, options);
        std::future::ready(Err(StoreErrorKind::Refused.into()))
    }
}
