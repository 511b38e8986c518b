//! Events that no server causes: the clock, the database, and requests still under way on lost connections.

use crate::{
    claim,
    guards::Guard,
    record,
    scenario::{Mode, Scenario},
    transactional,
    world::{AttemptId, Life, Stage, Transaction, World},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A COMMIT that has arrived is carried out.
    Commit(AttemptId),
    /// The lease of the reservation ends.
    EndLease,
    /// The retention of the record ends.
    Expire,
    /// A heartbeat arrives, however late.
    Extend(AttemptId),
    /// The database ends a transaction, because its client is gone or has been idle for too long.
    Reap(AttemptId),
    /// The database restarts.
    Restart,
    /// A claim on a lost connection arrives.
    StrayClaim(AttemptId),
}

pub(crate) fn events(scenario: &Scenario, world: &World) -> Vec<Event> {
    let mut events = Vec::new();
    for (id, attempt) in world.attempts.iter().enumerate() {
        match attempt.transaction {
            Transaction::Open if scenario.holds(Guard::IdleTransactionsEnd) => events.push(Event::Reap(id)),
            Transaction::Committing(_) => events.push(Event::Commit(id)),
            _ => {}
        }
        if attempt.stray_claim {
            events.push(Event::StrayClaim(id));
        }
        if world.left.heartbeats > 0 && had_heartbeats(scenario, world, id) && record::extends(scenario, world, id) {
            events.push(Event::Extend(id));
        }
    }
    if world.left.restarts > 0 && world.attempts.iter().any(|attempt| attempt.transaction != Transaction::None) {
        events.push(Event::Restart);
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
        Event::Commit(id) => transactional::execute(scenario, world, id),
        Event::EndLease => {
            if let Some(record) = &mut world.record {
                record.lease_runs = false;
            }
            world.life_mut().lease_ended = true;
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
        Event::Reap(id) => transactional::reap(scenario, world, id),
        Event::Restart => {
            world.left.restarts -= 1;
            for id in 0..world.attempts.len() {
                transactional::reap(scenario, world, id);
            }
        }
        Event::StrayClaim(id) => {
            world.attempts[id].stray_claim = false;
            claim::carry_out(scenario, world, id);
        }
    }
}

/// Without zombies a lease lasts as long as its holder works, because heartbeats extend it.
fn may_end_lease(scenario: &Scenario, world: &World) -> bool {
    scenario.holds(Guard::LeasesEnd) && world.lease_runs() && (scenario.chaos.zombies || !owner_is_at_work(world))
}

/// A retention is longer than any call, and a reservation lives at least as long as its lease.
fn may_expire(scenario: &Scenario, world: &World) -> bool {
    world.record.is_some()
        && !world.lease_runs()
        && !(owner_is_at_work(world) && scenario.holds(Guard::RecordsOutliveCalls))
}

fn owner_is_at_work(world: &World) -> bool {
    world.record.as_ref().is_some_and(|record| world.attempts[record.owner].stage.is_at_work())
}

/// The handler ran in reserved mode. The heartbeat may have been under way when the server crashed or settled.
fn had_heartbeats(scenario: &Scenario, world: &World, id: AttemptId) -> bool {
    let attempt = &world.attempts[id];
    scenario.servers[id].mode == Mode::Reserved
        && attempt.life.is_some()
        && matches!(attempt.stage, Stage::Handling | Stage::Settling(_) | Stage::Ended | Stage::Crashed)
}
