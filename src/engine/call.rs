//! A protected call: only data, without the engine.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use protobuf_canonical::RequestHashes;
use tokio_util::sync::CancellationToken;

use crate::{
    caller::Caller,
    engine::{attempts::Attempts, time::key_age},
    nesting::Nesting,
    policy::Procedure,
    seal::{CallKeys, Subject},
    status::IdempotencyStatus,
    store::{CallSession, Claim, Reservation, TransactionOptions},
};

/// A protected call.
#[derive(Clone)]
pub(crate) struct ProtectedCall {
    pub(crate) procedure: Arc<Procedure>,
    pub(crate) reservation: Reservation,
    /// The authenticated caller; `None` for a recovery, which knows only the owner.
    pub(crate) caller: Option<Caller>,
    pub(crate) session: CallSession,
    pub(crate) request_hashes: RequestHashes,
    /// The encoded request message, for the reconciler; `None` if the procedure has none, or if only the hash is known.
    pub(crate) request: Option<Bytes>,
    /// Whether it may end with a final error, so that its transaction begins with a savepoint.
    pub(crate) can_be_final: bool,
    /// The handlers around it.
    pub(crate) nesting: Nesting,
    /// The metadata of its record that is not the handler's, encoded: the `traceparent` of its request.
    pub(crate) metadata: Option<Bytes>,
    /// The time until which the client waits.
    pub(crate) deadline: Option<Instant>,
    /// Cancelled when the client disconnects; `None` if the procedure's policy ignores that.
    pub(crate) disconnected: Option<CancellationToken>,
    /// The attempts at it before this one.
    pub(crate) attempts: Attempts,
    /// The keys that its record is made with; `None` if that is not sealed.
    pub(crate) keys: Option<Arc<CallKeys>>,
}

impl ProtectedCall {
    /// Returns the claim to send to the store.
    pub(super) fn claim(&self) -> Claim {
        self.claim_of(match &self.keys {
            Some(keys) => keys.hashes(self.subject(), &self.request_hashes),
            None => self.request_hashes.clone(),
        })
    }

    /// Returns the claim with other hashes, which a record of the same request may have.
    pub(super) fn claim_of(&self, request: RequestHashes) -> Claim {
        let policies = self.procedure.policies();
        Claim {
            reservation: self.reservation,
            session: self.session.clone(),
            procedure: self.procedure.path().to_owned(),
            request,
            lease: policies.lease,
            retention: self.retention(),
            on_lease_ended: policies.on_lease_ended,
            on_foreign_reservation: policies.on_foreign_reservation,
            effect: policies.effect,
            resource_type: self.procedure.tracks().map(|creates| creates.resource_type.clone()),
        }
    }

    /// Returns how long its record lives.
    pub(super) fn retention(&self) -> Duration {
        key_age::retention(&self.procedure, self.reservation.key)
    }

    /// Returns the call for a further claim of its key.
    pub(super) fn with_a_new_token(&self) -> Arc<Self> {
        self.after(self.attempts)
    }

    /// Returns the call for a further claim of its key, after these attempts.
    pub(super) fn after(&self, attempts: Attempts) -> Arc<Self> {
        let Reservation { owner, key, .. } = self.reservation;
        Arc::new(Self { reservation: Reservation::new(owner, key), attempts, ..self.clone() })
    }

    /// Returns the call without its request, which may be large.
    pub(super) fn without_request(self: Arc<Self>) -> Arc<Self> {
        match self.request {
            None => self,
            Some(_) => Arc::new(Self { request: None, ..(*self).clone() }),
        }
    }

    pub(super) fn transaction_options(&self, pool: u32) -> TransactionOptions {
        let policies = self.procedure.policies();
        TransactionOptions {
            idle: policies.transaction_idle,
            isolation: policies.isolation,
            savepoint: self.can_be_final,
            inside: self.nesting.inside(pool),
        }
    }

    /// The record that it makes, or finds, for what is sealed in it.
    pub(super) fn subject(&self) -> Subject<'_> {
        let Reservation { owner, key, .. } = self.reservation;
        Subject { owner, key, procedure: self.procedure.path(), caller: self.caller.as_ref() }
    }

    /// Returns the status of the first response: the work behind the created resource has only begun.
    pub(super) fn first_status(&self) -> IdempotencyStatus {
        match self.procedure.tracks() {
            Some(_) => IdempotencyStatus::Processing,
            None => IdempotencyStatus::Completed,
        }
    }
}
