//! The claim of a key outside of a transaction, and a look at it.

use super::{
    columns::{arrival_hash, on_foreign_reservation, on_lease_ended, request_hash, settings},
    connection::Connections,
    driver::{Driver, Statement, Value},
    operation::{Attempt, Operation},
    row::claim_outcome,
};
use crate::{
    policy::EffectPolicy,
    store::{Claim, ClaimOutcome, StoreError, TransactionOptions},
};

/// Claims the key.
pub(super) async fn claim<D: Driver>(connections: &Connections<D>, claim: &Claim) -> Result<ClaimOutcome, StoreError> {
    let operation = &Operation::new(connections).with_status(claim.resource_type.is_some());
    let ask = |attempt: Attempt| async move {
        let parameters = &[
            (*claim.reservation.owner.as_uuid()).into(),
            (*claim.reservation.key.as_uuid()).into(),
            claim.reservation.token.into(),
            claim.procedure.as_str().into(),
            request_hash(&claim.request).into(),
            arrival_hash(&claim.request).into(),
            claim.lease.as_secs_f64().into(),
            claim.retention.as_secs_f64().into(),
            on_lease_ended(claim).into(),
            on_foreign_reservation(claim).into(),
            attempt.status_of(claim).into(),
            (claim.effect == EffectPolicy::SameServer).into(),
            claim.session.user.into(),
            settings(&claim.session).into(),
        ];
        Ok((operation.query_one(attempt, Statement { sql: &connections.sql().claim, parameters }).await?, attempt))
    };
    let (row, attempt) = operation.run(ask, |_| true).await?;
    claim_outcome(claim, &row, attempt.with_status)
}

/// Returns the outcome of beginning a transaction now, without beginning one: the locks of the key are released at once.
pub(super) async fn look<D: Driver>(
    connections: &Connections<D>,
    claim: &Claim,
    options: TransactionOptions,
) -> Result<ClaimOutcome, StoreError> {
    let operation = &Operation::new(connections).with_status(claim.resource_type.is_some()).leaving_nothing();
    let ask = |attempt| async move {
        let begin = Begin::new(claim, options, attempt);
        let statement = Statement { sql: &connections.sql().begin, parameters: &begin.parameters() };
        Ok((operation.query_one(attempt, statement).await?, attempt))
    };
    let (row, attempt) = operation.run(ask, |_| true).await?;
    claim_outcome(claim, &row, attempt.with_status)
}

/// The arguments of `tenant.idempotency_begin`.
pub(super) struct Begin<'a> {
    claim: &'a Claim,
    request_hash: &'a [u8],
    arrival_hash: Option<&'a [u8]>,
    lease: f64,
    idle: f64,
    on_lease_ended: &'static str,
    on_foreign_reservation: &'static str,
    resource_type: Option<&'a str>,
    settings: Option<&'a [String]>,
}

impl<'a> Begin<'a> {
    pub(super) fn new(claim: &'a Claim, options: TransactionOptions, attempt: Attempt) -> Self {
        Self {
            claim,
            request_hash: request_hash(&claim.request),
            arrival_hash: arrival_hash(&claim.request),
            lease: claim.lease.as_secs_f64(),
            idle: options.idle.as_secs_f64(),
            on_lease_ended: on_lease_ended(claim),
            on_foreign_reservation: on_foreign_reservation(claim),
            resource_type: attempt.status_of(claim),
            settings: settings(&claim.session),
        }
    }

    pub(super) fn parameters(&self) -> [Value<'_>; 13] {
        [
            (*self.claim.reservation.owner.as_uuid()).into(),
            (*self.claim.reservation.key.as_uuid()).into(),
            self.claim.reservation.token.into(),
            self.claim.procedure.as_str().into(),
            self.request_hash.into(),
            self.arrival_hash.into(),
            self.lease.into(),
            self.idle.into(),
            self.on_lease_ended.into(),
            self.on_foreign_reservation.into(),
            self.resource_type.into(),
            self.claim.session.user.into(),
            self.settings.into(),
        ]
    }
}
