//! Where the records live: the contract of a store, and two of them.

#[cfg(feature = "suite")]
pub mod conformance;
mod erased;
mod error;
mod memory;
#[cfg(feature = "postgres")]
mod postgres;
mod resource;
mod transaction;

use std::time::Duration;

use bytes::Bytes;
use uuid::Uuid;

pub(crate) use self::erased::DynStore;
#[cfg(feature = "postgres")]
pub use self::postgres::{PostgresStore, Savepoint, Transaction, TransactionError, TransactionErrorKind};
pub use self::{
    error::{StoreError, StoreErrorKind},
    memory::MemoryStore,
    resource::{Resource, ResourceType, ResourceTypes},
    transaction::{Begun, CommitOutcome, OpenTransaction, TransactionOptions},
};
use crate::{
    EffectPolicy, IdempotencyKey, LeasePolicy, Mismatch, UserId,
    status::types::{OutboxStatus, UnknownOutboxStatus},
};
use protobuf_canonical::RequestHash;

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
/// What every store promises, and `store::conformance` (feature `suite`) holds it to:
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
    fn abandoned(&self, search: &Search) -> impl Future<Output = Result<Vec<AbandonedKey>, StoreError>> + Send;

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
    ) -> impl Future<Output = Result<Begun, StoreError>> + Send {
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
    ) -> impl Future<Output = Result<Box<dyn OpenTransaction>, StoreError>> + Send {
        let _ = (user, idle, options);
        std::future::ready(Err(StoreErrorKind::Refused.into()))
    }
}

/// A wish to reserve a key.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Whose key it is, which one, and the token that is to fence it.
    pub reservation: Reservation,
    /// The path of the procedure.
    pub procedure: String,
    /// The hash of the request.
    pub request_hash: RequestHash,
    /// How long the reservation is to be believed.
    pub lease: Duration,
    /// How long the record is to live once completed.
    pub retention: Duration,
    /// What to do with a reservation whose lease ended without an outcome.
    pub on_lease_ended: LeasePolicy,
    /// Where the effect of the handler is: whether the reservation has to be on the disk before [`Store::claim`] answers. A store
    /// may be more careful than that, and one that keeps nothing on a disk has nothing to do. Says nothing to [`Store::begin`].
    pub effect: EffectPolicy,
    /// The type of the resource that the procedure creates, whose status a replay reports.
    pub resource_type: Option<String>,
}

impl Claim {
    /// What differs from the call that used the key before; `None` where it is the same call.
    pub fn mismatch(&self, recorded_procedure: &str, recorded_hash: &[u8]) -> Option<Mismatch> {
        if recorded_procedure != self.procedure {
            return Some(Mismatch::Procedure);
        }
        if !self.request_hash.matches(recorded_hash) {
            return Some(Mismatch::Request);
        }
        None
    }
}

/// A hold on a key, by the token that fences it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// The user.
    pub user: UserId,
    /// The user's key.
    pub key: IdempotencyKey,
    /// The fencing token, new with each claim.
    pub token: Uuid,
}

impl Reservation {
    /// A hold with a new token.
    pub fn new(user: UserId, key: IdempotencyKey) -> Self {
        Self { user, key, token: Uuid::new_v4() }
    }
}

/// What came of a claim.
///
/// | the key's record | same procedure and request | lease | policy | outcome |
/// |---|---|---|---|---|
/// | absent or expired | | | | `Acquired` |
/// | reserved or completed | no | | | `Mismatch` |
/// | reserved | yes | runs | | `InFlight` |
/// | reserved | yes | ended | `Rerun`, `Reconcile` | `TakenOver` |
/// | reserved | yes | ended | `Refuse` | `OutcomeUnknown` |
/// | abandoned | yes | | `Reconcile` | `TakenOver` |
/// | abandoned | yes | | `Rerun`, `Refuse` | `OutcomeUnknown` |
/// | completed | yes | | | `Replay` |
#[derive(Debug)]
pub enum ClaimOutcome {
    /// The key is the caller's, and no other call's before.
    Acquired,
    /// The first call still runs, and its lease for so long.
    InFlight {
        /// What is left of the lease.
        lease_left: Duration,
    },
    /// The key was used with another procedure or request.
    Mismatch(Mismatch),
    /// The first call ended its lease without an outcome, and is not to be run again.
    OutcomeUnknown,
    /// The first call succeeded, or ended with an error that is kept.
    Replay(Replay),
    /// The key is the caller's; a call that held it before ended its lease without an outcome.
    TakenOver,
}

/// The record of a call that ended.
#[derive(Debug)]
pub struct Replay {
    /// Its response.
    pub response: StoredResponse,
    /// The id of the resource that it created.
    pub resource: Option<Uuid>,
    /// The newest status of the work behind that resource: `Ok(None)` where nothing is known.
    pub status: Result<Option<OutboxStatus>, StatusError>,
    /// How long the record still lives, from some moment between the question and this answer, by the store's clock; rather
    /// too little than too much. For so long from when it asked, at most, the layer may give the response without asking again.
    pub expires_in: Duration,
}

/// A status that could not be found out. The replay that it belongs to stands.
#[derive(Debug)]
#[non_exhaustive]
pub enum StatusError {
    /// The look-up failed, with this SQLSTATE or other code.
    Lookup(String),
    /// The outbox has a status that means nothing here.
    Unknown(UnknownOutboxStatus),
}

impl std::fmt::Display for StatusError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Lookup(code) => write!(f, "the status look-up failed with {code}"),
            Self::Unknown(unknown) => unknown.fmt(f),
        }
    }
}

impl std::error::Error for StatusError {}

/// A response as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredResponse {
    /// An error that ended the operation, with its metadata, as the layer encodes it: a protobuf message of its own.
    Error(Bytes),
    /// It succeeded.
    Message(StoredMessage),
    /// It was too large to keep.
    Omitted,
}

impl StoredResponse {
    /// A message without metadata.
    pub fn message(message: impl Into<Bytes>) -> Self {
        Self::Message(StoredMessage { message: message.into(), metadata: None })
    }
}

/// A response message as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMessage {
    /// The encoded message, uncompressed and unframed.
    pub message: Bytes,
    /// The metadata that is replayed with it, as the layer encodes it: a protobuf message of its own. `None` where there is
    /// none, which is not the same to a store as no bytes.
    pub metadata: Option<Bytes>,
}

/// How a call ended whose outcome is kept.
#[derive(Clone, Debug)]
pub struct Completion {
    /// Its response.
    pub response: StoredResponse,
    /// The resource that it created.
    pub resource: Option<Resource>,
    /// How long the record is to live.
    pub retention: Duration,
}

/// What came of an extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtendOutcome {
    /// The lease runs anew.
    Extended,
    /// This token holds no reservation: taken over, completed, or released before. Nothing changed.
    NotHeld,
}

/// What came of ending a lease without an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbandonOutcome {
    /// The lease ended.
    Abandoned,
    /// This token holds no reservation: taken over, completed, or released before. Nothing changed.
    NotHeld,
}

/// Which abandoned reservations to look for.
#[derive(Clone, Debug)]
pub struct Search {
    /// The paths of the procedures.
    pub procedures: Vec<String>,
    /// How long ago they were first reserved, at most; `None` for ever.
    pub lookback: Option<Duration>,
    /// Held by fewer calls than this.
    pub max_attempts: u32,
    /// At most so many of them.
    pub batch: u32,
}

/// An abandoned reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbandonedKey {
    /// The user.
    pub user: UserId,
    /// The user's key.
    pub key: IdempotencyKey,
    /// The path of the procedure.
    pub procedure: String,
    /// The hash of the request.
    pub request_hash: RequestHash,
}

/// What came of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompleteOutcome {
    /// It was completed by this token before. Nothing changed.
    AlreadyCompleted,
    /// The record is completed.
    Completed,
    /// The reservation is not this token's, or no more. Nothing changed.
    Fenced,
}

/// What came of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// This token holds no reservation: taken over, completed, or released before. Nothing changed.
    NotHeld,
    /// The key is free.
    Released,
}
