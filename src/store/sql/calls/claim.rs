//! The claim of a key outside of a transaction, and a look at it.

use std::sync::{Arc, OnceLock};

use tokio::time::Instant;

use crate::{
    policy::EffectPolicy,
    store::{
        Claim, ClaimOutcome, StoreError, TransactionOptions,
        sql::{
            batch::{Found, Lanes, Look, LookAt, SendMode, WriteRequest},
            connections::{Connections, Failure, Reset, clock},
            driver::{Connection as _, ConnectionPool, Row, Statement, Value},
            operation::{AttemptPlan, StoreOperation},
            statements::{
                arrival_hash, claim_outcome, column, on_foreign_reservation, on_lease_ended, only_row, request_hash,
                settings,
            },
        },
    },
};

/// Claims the key: looks for its record first if one is expected, and reserves the key in a batch if it can. Everything else falls back to
/// the single statement.
pub(in crate::store::sql) async fn claim<D: ConnectionPool>(
    connections: &Connections<D>,
    lanes: &Lanes<D>,
    claim: &Claim,
) -> Result<ClaimOutcome, StoreError> {
    let operation = &StoreOperation::new(connections).with_status(claim.resource_type.is_some());
    let queued = &QueueableClaim::new(claim, false);
    let expects_record = lanes.prediction.expects_record();
    let ask = |attempt: AttemptPlan| async move {
        if expects_record && let Some(found) = find(operation, lanes, queued, attempt).await?.and_then(Found::outcome) {
            return Ok(found);
        }
        let _slot = match operation.share(attempt, &lanes.write, || WriteRequest::Claim(queued.claim())).await? {
            SendMode::Alone(slot) => slot,
            SendMode::Refused => None,
            SendMode::Together(Some(())) => return Ok(ClaimOutcome::Acquired),
            SendMode::Together(None) if expects_record => None,
            SendMode::Together(None) => match find(operation, lanes, queued, attempt).await?.and_then(Found::outcome) {
                Some(found) => return Ok(found),
                None => None,
            },
        };
        claim_alone(operation, claim, attempt).await
    };
    let outcome = operation.run(ask, |_| true).await;
    connections.late_claims().note(claim.reservation.token, operation.progress());
    let outcome = outcome?;
    lanes.prediction.note(!outcome.holds_key());
    Ok(outcome)
}

/// Claims the key by a statement of its own.
async fn claim_alone<D: ConnectionPool>(
    operation: &StoreOperation<'_, D>,
    claim: &Claim,
    attempt: AttemptPlan,
) -> Result<ClaimOutcome, Failure> {
    let connections = operation.connections();
    let mut asked = operation.connect(attempt, Reset::Nothing).await?;
    let ends = operation.progress().deadline();
    let until = match clock::shows_at(connections.clock(), ends, &mut *asked).await {
        Ok(until) => until,
        Err(error) => return Err(asked.failed(error).await),
    };
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
        until.into(),
    ];
    let sent = Instant::now();
    asked.claims_until(ends);
    let row = asked.query(Statement { sql: &connections.sql().claim, parameters }).await.and_then(only_row);
    let row = asked.answered(row).await?;
    clock::read(connections.clock(), sent, &row, "clock");
    in_time(&row)?;
    claim_outcome(claim, &row, attempt.with_status).map_err(Failure::Corrupt)
}

/// Returns the outcome of beginning a transaction now, without beginning one. It takes no locks.
pub(in crate::store::sql) async fn look<D: ConnectionPool>(
    connections: &Connections<D>,
    claim: &Claim,
    options: TransactionOptions,
) -> Result<ClaimOutcome, StoreError> {
    let operation = &StoreOperation::new(connections).with_status(claim.resource_type.is_some()).leaving_nothing();
    operation.run(|attempt| look_alone(operation, claim, options, attempt), |_| true).await.map(|(outcome, _)| outcome)
}

/// As [`look`], together with those of other calls if it can. Returns also whether the key has a row.
pub(in crate::store::sql) async fn look_for_row<D: ConnectionPool>(
    connections: &Connections<D>,
    lanes: &Lanes<D>,
    claim: &Claim,
    options: TransactionOptions,
) -> Result<(ClaimOutcome, bool), StoreError> {
    let operation = &StoreOperation::new(connections).with_status(claim.resource_type.is_some()).leaving_nothing();
    let queued = &QueueableClaim::new(claim, true);
    let ask = |attempt: AttemptPlan| async move {
        match find(operation, lanes, queued, attempt).await? {
            Some(Found::NoRow) => Ok((ClaimOutcome::Acquired, false)),
            Some(Found::Outcome(outcome)) => Ok((outcome, true)),
            None => look_alone(operation, claim, options, attempt).await,
        }
    };
    operation.run(ask, |_| true).await
}

/// Returns the outcome of beginning a transaction now, if a record decides it. It takes no locks.
pub(in crate::store::sql) async fn look_for_record<D: ConnectionPool>(
    connections: &Connections<D>,
    lanes: &Lanes<D>,
    claim: &Claim,
    options: TransactionOptions,
) -> Result<Option<ClaimOutcome>, StoreError> {
    let operation = &StoreOperation::new(connections).with_status(claim.resource_type.is_some()).leaving_nothing();
    let queued = &QueueableClaim::new(claim, false);
    let ask = |attempt: AttemptPlan| async move {
        if attempt.together {
            return Ok(find(operation, lanes, queued, attempt).await?.and_then(Found::outcome));
        }
        look_alone(operation, claim, options, attempt).await.map(|(outcome, _)| Some(outcome))
    };
    let found = operation.run(ask, |_| true).await?;
    Ok(found.filter(|outcome| !outcome.holds_key()))
}

/// The `until` of a `begin` that only looks: it takes no lock, and returns what a call would meet now.
const LOOK: f64 = f64::NEG_INFINITY;

async fn look_alone<D: ConnectionPool>(
    operation: &StoreOperation<'_, D>,
    claim: &Claim,
    options: TransactionOptions,
    attempt: AttemptPlan,
) -> Result<(ClaimOutcome, bool), Failure> {
    let begin = Begin::new(claim, options, attempt.status_of(claim), LOOK);
    let sql = &operation.connections().sql().begin;
    let rows = operation.call(attempt, Statement { sql, parameters: &begin.parameters() }, false).await?;
    let row = only_row(rows).map_err(Failure::of_answer)?;
    let outcome = claim_outcome(claim, &row, attempt.with_status).map_err(Failure::Corrupt)?;
    let recorded: Option<&str> = column(&row, "recorded_procedure").map_err(Failure::Corrupt)?;
    Ok((outcome, recorded.is_some()))
}

/// Looks at the claim's key by the first attempt, together with other claims; `None` if a statement of its own has to decide.
async fn find<D: ConnectionPool>(
    operation: &StoreOperation<'_, D>,
    lanes: &Lanes<D>,
    queued: &QueueableClaim<'_>,
    attempt: AttemptPlan,
) -> Result<Option<Found>, Failure> {
    if !attempt.together {
        return Ok(None);
    }
    let look = || LookAt {
        claim: queued.claim(),
        with_status: attempt.with_status,
        relies_on_absence: queued.relies_on_absence,
    };
    let begun = std::time::Instant::now();
    let failure = match lanes.look.enter(operation.progress(), look).await {
        Ok(SendMode::Refused) => return Ok(None),
        Ok(SendMode::Together(found)) => return Ok(found),
        Ok(SendMode::Alone(_slot)) => match operation.run_alone::<Look>(attempt, &look()).await {
            Ok(found) => {
                lanes.look.note(false);
                return Ok(found);
            }
            Err(failure) => failure,
        },
        Err(failure) => failure,
    };
    let fault = match failure {
        Failure::Late | Failure::NoConnection(_) | Failure::Corrupt(_) => return Err(failure),
        Failure::Statement { fault, error } => {
            operation.connections().note(fault, begun);
            operation.connections().forget_if_stale(&error);
            if !fault.is_lost() {
                lanes.look.note(true);
            }
            Some(fault)
        }
        Failure::Together { fault } => fault,
    };
    // A look leaves nothing, so nothing is lost with its answer.
    Err(Failure::Together { fault: fault.filter(|fault| !fault.is_lost()) })
}

/// A claim that is copied when it has to queue.
struct QueueableClaim<'a> {
    claim: &'a Claim,
    copy: OnceLock<Arc<Claim>>,
    /// As of [`LookAt`].
    relies_on_absence: bool,
}

impl<'a> QueueableClaim<'a> {
    fn new(claim: &'a Claim, relies_on_absence: bool) -> Self {
        Self { claim, copy: OnceLock::new(), relies_on_absence }
    }

    fn claim(&self) -> Arc<Claim> {
        Arc::clone(self.copy.get_or_init(|| Arc::new(self.claim.clone())))
    }
}

/// Fails if a claim came too late: it has done nothing then.
pub(in crate::store::sql) fn in_time(row: &impl Row) -> Result<(), Failure> {
    if column::<&str>(row, "state").is_ok_and(|state| state == "late") { Err(Failure::Late) } else { Ok(()) }
}

/// The arguments of `tenant.idempotency_begin`.
pub(in crate::store::sql) struct Begin<'a> {
    claim: &'a Claim,
    request_hash: &'a [u8],
    arrival_hash: Option<&'a [u8]>,
    lease: f64,
    idle: f64,
    on_lease_ended: &'static str,
    on_foreign_reservation: &'static str,
    resource_type: Option<&'a str>,
    settings: Option<&'a [String]>,
    until: f64,
}

impl<'a> Begin<'a> {
    pub(in crate::store::sql) fn new(
        claim: &'a Claim,
        options: TransactionOptions,
        resource_type: Option<&'a str>,
        until: f64,
    ) -> Self {
        Self {
            claim,
            request_hash: request_hash(&claim.request),
            arrival_hash: arrival_hash(&claim.request),
            lease: claim.lease.as_secs_f64(),
            idle: options.idle.as_secs_f64(),
            on_lease_ended: on_lease_ended(claim),
            on_foreign_reservation: on_foreign_reservation(claim),
            resource_type,
            settings: settings(&claim.session),
            until,
        }
    }

    pub(in crate::store::sql) fn parameters(&self) -> [Value<'_>; 14] {
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
            self.until.into(),
        ]
    }
}
