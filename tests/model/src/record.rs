//! The statements on the record. Each is one atomic step with a guard.

use crate::{
    guards::Guard,
    scenario::{Foreign, Mode, Policy, Scenario, Server},
    world::{AttemptId, Outcome, Record, Token, World},
};

/// The record as a claimant sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    Completed(Outcome),
    Free,
    InFlight,
    /// A reservation that the claimant may take over.
    LeaseEnded,
    /// The claimant's own reservation, whose lease it has not given back.
    Mine,
    OutcomeUnknown,
}

/// The record as the attempt finds it: `idempotency_state` and `idempotency_may_take_over`.
pub(crate) fn view(scenario: &Scenario, world: &World, id: AttemptId) -> View {
    view_as(scenario, world.record.as_ref(), world.attempts[id].token, scenario.servers[id])
}

pub(crate) fn view_as(scenario: &Scenario, record: Option<&Record>, token: Option<Token>, server: Server) -> View {
    let Some(record) = record else {
        return View::Free;
    };
    if let Some(outcome) = record.outcome {
        return View::Completed(outcome);
    }
    if token.is_some() && record.token == token && scenario.holds(Guard::ClaimKnowsItsToken) {
        return if record.let_go { View::OutcomeUnknown } else { View::Mine };
    }
    if record.lease_runs && scenario.holds(Guard::TakeoverWaitsForLease) {
        return View::InFlight;
    }
    let waits = server.on_foreign_reservation == Foreign::InProgress && scenario.holds(Guard::ForeignReservationsWait);
    if record.is_foreign() && waits {
        return View::InFlight;
    }
    match server.on_lease_ended {
        Policy::Refuse => View::OutcomeUnknown,
        Policy::Rerun if record.outcome_unknown && scenario.holds(Guard::RerunSparesAbandoned) => View::OutcomeUnknown,
        Policy::Reconcile | Policy::Rerun => View::LeaseEnded,
    }
}

/// Gives the key to an attempt by a new reservation, if no valid record is there: `idempotency_claim_row`, and `idempotency_reserve_many` for
/// several calls.
pub(crate) fn reserve(world: &mut World, id: AttemptId) {
    forget_completed(world);
    world.record = Some(Record::reserved(world.attempts[id].token, id));
}

/// Gives the key to an attempt by taking over a reservation whose lease has ended: `idempotency_claim_row`.
pub(crate) fn take_over(scenario: &Scenario, world: &mut World, id: AttemptId) {
    note_rerun(scenario, world, id);
    let attempt = &mut world.attempts[id];
    let record = world.record.as_mut().expect("the record was seen");
    if scenario.holds(Guard::TakeoverRenewsToken) {
        record.token = attempt.token;
    } else {
        attempt.token = record.token;
    }
    record.outcome_unknown &= scenario.holds(Guard::TakeoverKeepsMark);
    record.owner = id;
    record.let_go = false;
    record.takeovers += 1;
    record.lease_runs = true;
}

/// Notes that an abandoned call is run again, unless a reconciler is asked first.
pub(crate) fn note_rerun(scenario: &Scenario, world: &mut World, id: AttemptId) {
    let abandoned = world.record.as_ref().is_some_and(|record| record.abandoned.is_some());
    world.history.reran_abandoned |= abandoned && scenario.servers[id].on_lease_ended == Policy::Rerun;
}

/// Stores an outcome: `idempotency_complete_row`, and `idempotency_complete_many` for several calls. Returns whether the attempt held the record.
pub(crate) fn complete(scenario: &Scenario, world: &mut World, id: AttemptId, outcome: Outcome) -> bool {
    if !addresses(scenario, world, id, Guard::CompleteChecksToken) {
        return false;
    }
    if looks_completed(scenario, world, id) && scenario.holds(Guard::CompleteSparesCompleted) {
        return true;
    }
    note_trespass(world, id);
    if let Some(record) = &mut world.record {
        let changes = record.outcome.is_some_and(|recorded| recorded != outcome);
        record.outcome = Some(outcome);
        record.outcome_unknown = false;
        record.abandoned = None;
        record.lease_runs = false;
        world.history.rewritten |= changes;
        world.life_mut().recorded = Some(outcome);
    }
    true
}

/// Frees the key: `idempotency_release_row`. Returns whether the attempt held it.
///
/// A reservation that was taken over is given back as it was, with its lease ended: the outcome of the earlier call is
/// still unknown, and an attempt whose claim got no answer does not even know of the takeover.
pub(crate) fn release(scenario: &Scenario, world: &mut World, id: AttemptId) -> bool {
    if !addresses(scenario, world, id, Guard::ReleaseChecksToken)
        || (looks_completed(scenario, world, id) && scenario.holds(Guard::ReleaseSparesCompleted))
    {
        return false;
    }
    note_trespass(world, id);
    let gives_back = scenario.servers[id].mode != Mode::GoInterceptor && scenario.holds(Guard::ReleaseGivesBack);
    match &mut world.record {
        Some(record) if gives_back && record.takeovers > 0 => {
            record.lease_runs = false;
            record.let_go = true;
        }
        _ => {
            forget_completed(world);
            world.record = None;
        }
    }
    true
}

/// Marks the reservation as abandoned: `idempotency_abandon_row`. Returns whether the attempt held it.
pub(crate) fn abandon(scenario: &Scenario, world: &mut World, id: AttemptId) -> bool {
    if !addresses(scenario, world, id, Guard::AbandonChecksToken) || looks_completed(scenario, world, id) {
        return false;
    }
    note_trespass(world, id);
    if let Some(record) = &mut world.record {
        record.outcome_unknown = true;
        record.abandoned = Some(record.takeovers);
        record.let_go = true;
        record.lease_runs = false;
    }
    true
}

/// Whether a heartbeat of the attempt would extend the lease.
pub(crate) fn extends(scenario: &Scenario, world: &World, id: AttemptId) -> bool {
    addresses(scenario, world, id, Guard::ExtendChecksToken)
        && world.record.as_ref().is_some_and(|record| {
            record.outcome.is_none()
                && !record.lease_runs
                && !(record.outcome_unknown && scenario.holds(Guard::ExtendSparesAbandoned))
        })
}

/// Renews the lease: `idempotency_extend_row`.
pub(crate) fn extend(world: &mut World, id: AttemptId) {
    note_trespass(world, id);
    if let Some(record) = &mut world.record {
        record.lease_runs = true;
    }
}

/// Whether a statement of the attempt matches the row: by key and token, or by key alone for the Go interceptor.
fn addresses(scenario: &Scenario, world: &World, id: AttemptId, guard: Guard) -> bool {
    let by_key_alone = scenario.servers[id].mode == Mode::GoInterceptor || !scenario.holds(guard);
    world.record.as_ref().is_some_and(|record| by_key_alone || record.token == world.attempts[id].token)
}

/// The Go interceptor recognises a completed record by its response, and takes a stored error for a reservation.
fn looks_completed(scenario: &Scenario, world: &World, id: AttemptId) -> bool {
    match world.record.as_ref().and_then(|record| record.outcome) {
        Some(Outcome::Response(_)) => true,
        Some(Outcome::FinalError(_)) => scenario.servers[id].mode != Mode::GoInterceptor,
        None => false,
    }
}

fn forget_completed(world: &mut World) {
    world.history.rewritten |= world.record.as_ref().is_some_and(|record| record.outcome.is_some());
}

/// The Go interceptor is left out: without tokens it cannot avoid this.
fn note_trespass(world: &mut World, id: AttemptId) {
    let others = world.record.as_ref().is_some_and(|record| record.owner != id);
    world.history.trespassed |= others && world.attempts[id].token.is_some();
}
