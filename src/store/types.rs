//! The arguments and outcomes of a store's operations.

use std::time::Duration;

use bytes::Bytes;
use protobuf_canonical::RequestHashes;
use uuid::Uuid;

use super::CallSession;
use crate::{
    caller::OwnerId,
    key::KeyId,
    policy::{EffectPolicy, ForeignPolicy, LeasePolicy},
    rejection::Mismatch,
    status::{OutboxStatus, Resource, ResourceId, UnknownOutboxStatus},
};

/// A request to reserve a key.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "built by the authors of stores, in stores and in their tests")]
pub struct Claim {
    /// The owner, the key, and the fencing token of this claim.
    pub reservation: Reservation,
    /// The session that the application's policies and functions find, such as the function that looks up the status.
    pub session: CallSession,
    /// The path of the procedure: `/package.Service/Method`.
    pub procedure: String,
    /// The hashes of the request.
    pub request: RequestHashes,
    /// How long the reservation is valid, from now, unless it is renewed.
    pub lease: Duration,
    /// How long the record of the reservation lives, from now; if the lease is longer, it lives as long as the lease. A
    /// completion starts a retention of its own.
    pub retention: Duration,
    /// The policy for a reservation of the same request whose lease ended without an outcome.
    pub on_lease_ended: LeasePolicy,
    /// The policy for a reservation of the same request that has no lease, because another system made it. With
    /// [`ForeignPolicy::InProgress`] the reservation counts as running until it expires; otherwise its lease is this claim's
    /// [`lease`](Self::lease), from its creation. A store that no other system writes to ignores the policy.
    pub on_foreign_reservation: ForeignPolicy,
    /// The place of the handler's effect. It decides whether the reservation has to be on disk before
    /// [`Store::claim`](super::Store::claim) answers. A store may always wait for the disk; a store without a disk
    /// ignores it, as does [`Store::begin`](super::Store::begin).
    pub effect: EffectPolicy,
    /// The type of the resource that the procedure creates. A replay reports the status of that resource.
    pub resource_type: Option<String>,
}

impl Claim {
    /// Compares the claim with the recorded call. Returns the first difference; `None` if it is the same call. A recorded request without
    /// hashes differs.
    pub fn mismatch(&self, recorded_procedure: &str, recorded: Option<&RequestHashes>) -> Option<Mismatch> {
        if recorded_procedure != self.procedure {
            return Some(Mismatch::Procedure);
        }
        if !recorded.is_some_and(|recorded| self.request.same_request(recorded)) {
            return Some(Mismatch::Request);
        }
        None
    }
}

/// A reservation of a key, identified by its fencing token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "built by the authors of stores, in stores and in their tests")]
pub struct Reservation {
    /// The owner.
    pub owner: OwnerId,
    /// The owner's key.
    pub key: KeyId,
    /// The fencing token: a new one for each claim.
    pub token: Uuid,
}

impl Reservation {
    /// Makes a reservation with a new random token.
    pub fn new(owner: OwnerId, key: KeyId) -> Self {
        Self { owner, key, token: Uuid::new_v4() }
    }
}

/// The outcome of a claim.
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
/// | released or abandoned by this token | yes | | | `OutcomeUnknown` |
/// | completed | yes | | | `Replay` |
///
/// For a reservation without a lease, the policy is [`Claim::on_foreign_reservation`].
#[derive(Debug)]
#[non_exhaustive]
pub enum ClaimOutcome {
    /// The caller holds the key, and no call held it before.
    Acquired,
    /// The first call is still running.
    InFlight {
        /// The time until its lease ends.
        lease_left: Duration,
    },
    /// The key was used with another procedure or request.
    Mismatch(Mismatch),
    /// The lease of the first call ended without an outcome, and the call must not be run again.
    OutcomeUnknown,
    /// The first call succeeded, or ended with a final error that is stored.
    Replay(Replay),
    /// The caller holds the key. The lease of a call that held it before ended without an outcome.
    TakenOver,
}

impl ClaimOutcome {
    /// Returns whether the caller holds the key.
    #[cfg(feature = "sql")]
    pub(in crate::store) fn holds_key(&self) -> bool {
        matches!(self, Self::Acquired | Self::TakenOver)
    }
}

/// The record of a completed call.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "built by the authors of stores, in stores and in their tests")]
pub struct Replay {
    /// Its response.
    pub response: StoredResponse,
    /// The id of the resource that it created.
    pub resource: Option<ResourceId>,
    /// The newest status of the work behind that resource: `Ok(None)` if it has no status.
    pub status: Result<Option<OutboxStatus>, StatusError>,
    /// How long the record still lives, by the store's clock: counted from a moment between the claim and this outcome,
    /// and rounded down. The layer may replay the response without another claim until this time has passed since it
    /// sent the claim.
    pub expires_in: Duration,
}

/// An error of a status look-up. The replay itself is valid all the same.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StatusError {
    /// The look-up failed with this code: a SQLSTATE, for PostgreSQL.
    #[error("the status look-up failed with code {0}")]
    Lookup(String),
    /// The look-up took longer than the store waits for it, or failed together with the claim, which was sent again without
    /// it.
    #[error("the status look-up did not answer in time")]
    TimedOut,
    /// The outbox contains a status that this version does not know.
    #[error(transparent)]
    Unknown(UnknownOutboxStatus),
}

/// A stored response.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoredResponse {
    /// A final error with its metadata, in the layer's own encoding (a protobuf message).
    Error(Bytes),
    /// The response message of a successful call.
    Message(StoredMessage),
    /// The response is not stored: it was too large, its key was destroyed before it was sealed, or an operator has evicted it.
    NotStored,
    /// The response message of a successful call with its metadata, as only the holder of a key reads it. The first byte is zero.
    Sealed(Bytes),
}

impl StoredResponse {
    /// Makes a response from a message without metadata.
    pub fn message(message: impl Into<Bytes>) -> Self {
        Self::Message(StoredMessage { message: message.into(), metadata: None })
    }

    /// Returns its size, in bytes.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Error(error) => error.len(),
            Self::Message(stored) => stored.message.len() + stored.metadata.as_ref().map_or(0, Bytes::len),
            Self::NotStored => 0,
            Self::Sealed(envelope) => envelope.len(),
        }
    }
}

/// A stored response message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "built by the authors of stores, in stores and in their tests")]
pub struct StoredMessage {
    /// The encoded message, uncompressed and unframed.
    pub message: Bytes,
    /// The metadata that is replayed with it, in the layer's own encoding (a protobuf message). A store distinguishes
    /// `None`, no metadata, from `Some` of no bytes.
    pub metadata: Option<Bytes>,
}

/// The outcome of a call, to be recorded.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "built by the authors of stores, in stores and in their tests")]
pub struct Completion {
    /// Its response.
    pub response: StoredResponse,
    /// The resource that it created.
    pub resource: Option<Resource>,
    /// How long the record lives, from the completion.
    pub retention: Duration,
}

/// The outcome of an extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExtendOutcome {
    /// The lease was renewed.
    Extended,
    /// This token does not hold a reservation: it was taken over, completed or released before. Nothing changed.
    NotHeld,
}

/// The outcome of an abandonment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AbandonOutcome {
    /// The lease has ended, and the record says that the outcome is unknown.
    Abandoned,
    /// This token does not hold a reservation: it was taken over, completed or released before. Nothing changed.
    NotHeld,
}

/// A query for abandoned reservations.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "built by the authors of stores, in stores and in their tests")]
pub struct AbandonedQuery {
    /// The paths of the procedures. Only their reservations are found.
    pub procedures: Vec<String>,
    /// The longest time since a key was first reserved. `None`: no limit.
    pub lookback: Option<Duration>,
    /// Finds only reservations that were held by fewer calls than this. Each claim and each takeover counts.
    pub max_attempts: u32,
    /// The largest number of reservations to return.
    pub batch: u32,
}

/// An abandoned reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "built by the authors of stores, in stores and in their tests")]
pub struct AbandonedKey {
    /// The owner.
    pub owner: OwnerId,
    /// The owner's key.
    pub key: KeyId,
    /// The path of the procedure.
    pub procedure: String,
    /// The hashes of the request.
    pub request: RequestHashes,
}

/// The outcome of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompleteOutcome {
    /// This token has completed the record before. Nothing changed.
    AlreadyCompleted,
    /// The record is completed.
    Completed,
    /// This token does not hold the reservation, or no longer holds it. Nothing changed.
    Fenced,
}

/// The outcome of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReleaseOutcome {
    /// This token does not hold a reservation: it was taken over, completed or released before. Nothing changed.
    NotHeld,
    /// The caller no longer holds the key. It is free; or, if the caller had taken it over, its lease has ended.
    Released,
}
