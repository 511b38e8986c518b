//! Events that no server causes: the clock, the database, and requests still under way on lost connections.

use crate::{
    claim,
    guards::Guard,
    pool::{self, Other},
    record,
    scenario::{Foreign, Mode, Scenario},
    transactional,
    world::{AttemptId, Life, Record, Stage, Transaction, World},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The servers can reach the database again.
    ComeBack,
    /// A COMMIT that has arrived is carried out.
    Commit(AttemptId),
    /// The lease of the reservation ends.
    EndLease,
    /// The retention of the record ends.
    Expire,
    /// A heartbeat arrives, however late.
    Extend(AttemptId),
    /// The servers cannot reach the database any more.
    GoAway,
    /// A transaction of another user begins.
    OtherBegins(Other),
    OtherEnds(Other),
    /// The database ends a transaction, because its client is gone or has been idle for too long.
    Reap(AttemptId),
    /// The database restarts.
    Restart,
    /// A claim on a lost connection arrives.
    StrayClaim(AttemptId),
    /// The time of such a claim is over, and it is not in its COMMIT: it changes nothing when it arrives.
    StrayClaimEnds(AttemptId),
}

pub(crate) fn events(scenario: &Scenario, world: &World) -> Vec<Event> {
    let mut events = Vec::new();
    for (id, attempt) in world.attempts.iter().enumerate() {
        match attempt.transaction {
            Transaction::Open if scenario.holds(Guard::IdleTransactionsEnd) => events.push(Event::Reap(id)),
            Transaction::Committing(_) => events.push(Event::Commit(id)),
            _ => {}
        }
        if attempt.stray_claim || attempt.stray_commit {
            events.push(Event::StrayClaim(id));
        }
        if attempt.stray_claim && scenario.holds(Guard::LateClaimsDoNothing) {
            events.push(Event::StrayClaimEnds(id));
        }
        if world.left.heartbeats > 0 && had_heartbeats(scenario, world, id) && record::extends(scenario, world, id) {
            events.push(Event::Extend(id));
        }
    }
    if world.left.restarts > 0 && world.attempts.iter().any(|attempt| attempt.transaction != Transaction::None) {
        events.push(Event::Restart);
    }
    for other in 0..world.others.len() {
        if world.left.others > 0 && pool::admits_other(scenario, world, other) {
            events.push(Event::OtherBegins(other));
        }
        if world.others[other] > 0 {
            events.push(Event::OtherEnds(other));
        }
    }
    if world.is_away {
        events.push(Event::ComeBack);
    } else if world.left.outages > 0 {
        events.push(Event::GoAway);
    }
    if may_end_lease(scenario, world) {
        events.push(Event::EndLease);
    }
    if world.left.expiries > 0 && may_expire(scenario, world) {
        events.push(Event::Expire);
    }
    events
}

pub(crate) fn happen(scenario: &Scenario, world: &mut World, event: Event) {
    match event {
        Event::ComeBack => world.is_away = false,
        Event::Commit(id) => transactional::execute(scenario, world, id),
        Event::EndLease => {
            let is_foreign = world.record.as_ref().is_some_and(Record::is_foreign);
            if let Some(record) = &mut world.record {
                record.lease_runs = false;
            }
            world.life_mut().lease_ended |= !is_foreign || scenario.takes_over_foreign();
        }
        Event::Expire => {
            world.left.expiries -= 1;
            world.record = None;
            world.history.lives.push(Life::default());
        }
        Event::Extend(id) => {
            world.left.heartbeats -= 1;
            record::extend(world, id);
        }
        Event::GoAway => {
            world.left.outages -= 1;
            world.is_away = true;
        }
        Event::OtherBegins(other) => {
            world.left.others -= 1;
            world.others[other] += 1;
        }
        Event::OtherEnds(other) => world.others[other] -= 1,
        Event::Reap(id) => transactional::reap(scenario, world, id),
        Event::Restart => {
            world.left.restarts -= 1;
            for id in 0..world.attempts.len() {
                transactional::reap(scenario, world, id);
            }
        }
        Event::StrayClaim(id) => {
            world.attempts[id].stray_claim = false;
            world.attempts[id].stray_commit = false;
            claim::carry_out(scenario, world, id);
        }
        Event::StrayClaimEnds(id) => {
            world.attempts[id].stray_claim = false;
            world.attempts[id].stray_commit = !scenario.holds(Guard::HangingClaimsAreWaitedFor);
        }
    }
}

/// Without zombies a lease lasts as long as its holder works, because heartbeats extend it. They end with the answer,
/// even if the outcome is still to be recorded.
fn may_end_lease(scenario: &Scenario, world: &World) -> bool {
    let Some(record) = world.record.as_ref().filter(|record| record.lease_runs) else {
        return false;
    };
    let is_reserved = scenario.servers[record.owner].mode == Mode::Reserved;
    let owner = &world.attempts[record.owner];
    let is_renewed = match owner.stage {
        Stage::Handling if is_reserved => scenario.holds(Guard::HeartbeatHasItsTask),
        Stage::Settling(_) if is_reserved => owner.answer.is_none(),
        Stage::Unprotected => scenario.holds(Guard::UnprotectedRunsRenew),
        stage => stage.is_at_work(),
    };
    let has_lease =
        !record.is_foreign() || scenario.takes_over_foreign() || !scenario.holds(Guard::ForeignReservationsWait);
    scenario.holds(Guard::LeasesEnd) && has_lease && (scenario.chaos.zombies || !is_renewed)
}

/// A retention is longer than any call and the time of any claim, and a reservation lives at least as long as its lease.
fn may_expire(scenario: &Scenario, world: &World) -> bool {
    let is_used = owner_is_at_work(world) && scenario.holds(Guard::RecordsOutliveCalls);
    world.record.is_some() && !world.lease_runs() && !is_used && !may_be_claimed(scenario, world)
}

/// Whether a claim on a lost connection has a time that is not over.
fn may_be_claimed(scenario: &Scenario, world: &World) -> bool {
    scenario.holds(Guard::LateClaimsDoNothing) && world.attempts.iter().any(|attempt| attempt.stray_claim)
}

fn owner_is_at_work(world: &World) -> bool {
    world.record.as_ref().is_some_and(|record| world.attempts[record.owner].stage.is_at_work())
}

/// The handler ran with a lease. The heartbeat may have been under way when the server crashed or settled.
fn had_heartbeats(scenario: &Scenario, world: &World, id: AttemptId) -> bool {
    let attempt = &world.attempts[id];
    scenario.servers[id].mode == Mode::Reserved
        && attempt.life.is_some()
        && matches!(
            attempt.stage,
            Stage::Handling | Stage::Unprotected | Stage::Settling(_) | Stage::Ended | Stage::Crashed
        )
}

impl Scenario {
    /// Whether a server takes over reservations of the Go interceptor.
    fn takes_over_foreign(&self) -> bool {
        self.servers.iter().any(|server| server.on_foreign_reservation == Foreign::OnLeaseEnded)
    }
}
