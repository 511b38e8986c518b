//! The questions to a store, and its answers.

use std::time::Duration;

use bytes::Bytes;
use protobuf_canonical::RequestHash;
use uuid::Uuid;

use crate::{
    key::IdempotencyKey,
    policy::{EffectPolicy, LeasePolicy},
    rejection::Mismatch,
    status::{OutboxStatus, Resource, UnknownOutboxStatus},
    user::UserId,
};

/// A wish to reserve a key.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "built by the authors of stores, in stores and in their tests")]
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
#[expect(clippy::exhaustive_structs, reason = "built by the authors of stores, in stores and in their tests")]
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
#[non_exhaustive]
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
#[expect(clippy::exhaustive_structs, reason = "built by the authors of stores, in stores and in their tests")]
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
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StatusError {
    /// The look-up failed, with this SQLSTATE or other code.
    #[error("the status look-up failed with {0}")]
    Lookup(String),
    /// The outbox has a status that means nothing here.
    #[error(transparent)]
    Unknown(UnknownOutboxStatus),
}

/// A response as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoredResponse {
    /// An error that ended the operation, with its metadata, as the layer encodes it: a protobuf message of its own.
    Error(Bytes),
    /// It succeeded.
    Message(StoredMessage),
    /// It was too large to store.
    NotStored,
}

impl StoredResponse {
    /// A message without metadata.
    pub fn message(message: impl Into<Bytes>) -> Self {
        Self::Message(StoredMessage { message: message.into(), metadata: None })
    }
}

/// A response message as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "built by the authors of stores, in stores and in their tests")]
pub struct StoredMessage {
    /// The encoded message, uncompressed and unframed.
    pub message: Bytes,
    /// The metadata that is replayed with it, as the layer encodes it: a protobuf message of its own. `None` where there is
    /// none, which is not the same to a store as no bytes.
    pub metadata: Option<Bytes>,
}

/// How a call ended whose outcome is kept.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "built by the authors of stores, in stores and in their tests")]
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
#[non_exhaustive]
pub enum ExtendOutcome {
    /// The lease runs anew.
    Extended,
    /// This token holds no reservation: taken over, completed, or released before. Nothing changed.
    NotHeld,
}

/// What came of ending a lease without an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AbandonOutcome {
    /// The lease ended.
    Abandoned,
    /// This token holds no reservation: taken over, completed, or released before. Nothing changed.
    NotHeld,
}

/// Which abandoned reservations to look for.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "built by the authors of stores, in stores and in their tests")]
pub struct AbandonedQuery {
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
#[expect(clippy::exhaustive_structs, reason = "built by the authors of stores, in stores and in their tests")]
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
#[non_exhaustive]
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
#[non_exhaustive]
pub enum ReleaseOutcome {
    /// This token holds no reservation: taken over, completed, or released before. Nothing changed.
    NotHeld,
    /// The key is free.
    Released,
}
