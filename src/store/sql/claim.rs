//! The claim of a key outside of a transaction, and a look at it.

use tokio_postgres::types::{ToSql, Type};

use super::{
    columns::{arrival_hash, on_foreign_reservation, on_lease_ended, request_hash, settings},
    connection::Connections,
    operation::{Attempt, Operation},
    query::only_row,
    row::claim_outcome,
    statement::Parameters,
};
use crate::{
    policy::EffectPolicy,
    store::{Claim, ClaimOutcome, StoreError, TransactionOptions},
};

/// Claims the key.
pub(super) async fn claim(connections: &Connections, claim: &Claim) -> Result<ClaimOutcome, StoreError> {
    let operation = &Operation::new(connections).with_status(claim.resource_type.is_some());
    let ask = |attempt: Attempt| async move {
        let parameters: Parameters<'_> = &[
            (claim.reservation.owner.as_uuid(), Type::UUID),
            (claim.reservation.key.as_uuid(), Type::UUID),
            (&claim.reservation.token, Type::UUID),
            (&claim.procedure, Type::TEXT),
            (&request_hash(&claim.request), Type::BYTEA),
            (&arrival_hash(&claim.request), Type::BYTEA),
            (&claim.lease.as_secs_f64(), Type::FLOAT8),
            (&claim.retention.as_secs_f64(), Type::FLOAT8),
            (&on_lease_ended(claim), Type::TEXT),
            (&on_foreign_reservation(claim), Type::TEXT),
            (&attempt.status_of(claim), Type::TEXT),
            (&(claim.effect == EffectPolicy::SameServer), Type::BOOL),
            (&claim.session.user, Type::UUID),
            (&settings(&claim.session), Type::TEXT_ARRAY),
        ];
        Ok((operation.query(attempt, &connections.sql().claim, parameters).await?, attempt))
    };
    let (rows, attempt) = operation.run(ask, |_| true).await?;
    claim_outcome(claim, &only_row(rows)?, attempt.with_status)
}

/// Returns the outcome of beginning a transaction now, without beginning one: the locks of the key are released at once.
pub(super) async fn look(
    connections: &Connections,
    claim: &Claim,
    options: TransactionOptions,
) -> Result<ClaimOutcome, StoreError> {
    let operation = &Operation::new(connections).with_status(claim.resource_type.is_some()).leaving_nothing();
    let ask = |attempt| async move {
        let begin = Begin::new(claim, options, attempt);
        Ok((operation.query(attempt, &connections.sql().begin, &begin.parameters()).await?, attempt))
    };
    let (rows, attempt) = operation.run(ask, |_| true).await?;
    claim_outcome(claim, &only_row(rows)?, attempt.with_status)
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

    pub(super) fn parameters(&self) -> [(&(dyn ToSql + Sync), Type); 13] {
        [
            (self.claim.reservation.owner.as_uuid(), Type::UUID),
            (self.claim.reservation.key.as_uuid(), Type::UUID),
            (&self.claim.reservation.token, Type::UUID),
            (&self.claim.procedure, Type::TEXT),
            (&self.request_hash, Type::BYTEA),
            (&self.arrival_hash, Type::BYTEA),
            (&self.lease, Type::FLOAT8),
            (&self.idle, Type::FLOAT8),
            (&self.on_lease_ended, Type::TEXT),
            (&self.on_foreign_reservation, Type::TEXT),
            (&self.resource_type, Type::TEXT),
            (&self.claim.session.user, Type::UUID),
            (&self.settings, Type::TEXT_ARRAY),
        ]
    }
}
