//! Statements that several calls share.
//!
//! A server's store collects the claims of calls that wait, and sends them as one statement. The statement does only the
//! common case, for each call as if it were alone, and says nothing about the others; these then go alone. It is one
//! transaction: carried out for all of its calls or for none, and its answers arrive together or not at all. The calls
//! here have one key. Those of other keys appear as reasons for a batch to fail.

use crate::{
    claim,
    guards::Guard,
    record::{self, View},
    reserved::{acquire, holds_lease},
    scenario::Scenario,
    unprotected,
    world::{Answer, AttemptId, Disposition, Record, Stage, World},
};

/// The calls of a batch, as the bits of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Calls(u8);

impl Calls {
    fn ids(self) -> impl Iterator<Item = AttemptId> {
        (0..8).filter(move |id| self.0 & (1 << id) != 0)
    }
}

/// The fate of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Answered,
    /// The batch is carried out, and its answers are lost.
    AnswersLost,
    /// The batch fails because of another call's row, and nothing of it is carried out.
    BadRow,
    /// No answer comes in time, or the connection is lost. Each claim may still be carried out at any time.
    Lost,
}

/// The batches that a server may send: of all calls that wait, or of some.
pub(crate) fn batches(world: &World) -> Vec<(Calls, Fate)> {
    let waiting = Calls(world.attempts.iter().rev().fold(0, |bits, attempt| (bits << 1) | u8::from(attempt.queued)));
    if waiting.0 == 0 || world.is_away {
        return vec![];
    }
    let left = &world.left;
    let fates = [
        (true, Fate::Answered),
        (left.losses > 0, Fate::AnswersLost),
        (left.bad_rows > 0, Fate::BadRow),
        (left.losses > 0, Fate::Lost),
    ];
    let some = (1..=waiting.0).filter(|bits| bits & !waiting.0 == 0).map(Calls);
    some.flat_map(|calls| fates.iter().filter(|(is_possible, _)| *is_possible).map(move |&(_, fate)| (calls, fate)))
        .collect()
}

/// Sends a batch: `idempotency_write_many`. Its calls leave the queue.
pub(crate) fn carry_out(scenario: &Scenario, world: &mut World, calls: Calls, fate: Fate) {
    for id in calls.ids() {
        world.attempts[id].queued = false;
    }
    match fate {
        Fate::Answered => {
            let acquired: Vec<AttemptId> = calls.ids().filter(|&id| reserves(scenario, world, id)).collect();
            world.history.shared |= !acquired.is_empty() && calls.ids().count() > 1;
            for id in calls.ids() {
                let is_told =
                    acquired.contains(&id) || (!acquired.is_empty() && !scenario.holds(Guard::BatchAnswersByToken));
                hear(world, id, is_told);
            }
        }
        Fate::AnswersLost => {
            world.left.losses -= 1;
            for id in calls.ids() {
                reserves(scenario, world, id);
                lose(scenario, world, id);
            }
        }
        Fate::BadRow => {
            world.left.bad_rows -= 1;
            for id in calls.ids().filter(|_| !scenario.holds(Guard::FailedBatchGoesAlone)) {
                world.history.refused_for_another = true;
                unprotected::refuse(scenario, world, id);
            }
        }
        Fate::Lost => {
            world.left.losses -= 1;
            for id in calls.ids() {
                world.attempts[id].stray_claim = true;
                lose(scenario, world, id);
            }
        }
    }
}

/// Takes a call out of the queue that does not wait for its claim any more.
pub(crate) fn leave(scenario: &Scenario, world: &mut World) {
    for attempt in &mut world.attempts {
        let waits = attempt.stage == Stage::Claiming || !scenario.holds(Guard::LeaversAreNotSent);
        attempt.queued &= waits;
    }
}

/// Whether a look answers the call.
pub(crate) fn look_decides(scenario: &Scenario, world: &World, id: AttemptId) -> bool {
    scenario.servers[id].batches && !world.is_away && looked(scenario, world, id).is_some()
}

/// Reads the record, and answers the call: `idempotency_look`. What a look does not decide is claimed, or begun.
pub(crate) fn look(scenario: &Scenario, world: &mut World, id: AttemptId) {
    let Some(answer) = looked(scenario, world, id) else {
        return;
    };
    let is_in_flight = answer == Answer::InFlight;
    world.history.waited_for_itself |= is_in_flight && holds_lease(world, id);
    world.history.waited_for_nothing |= is_in_flight && !world.lease_runs();
    world.attempts[id].life = Some(world.life());
    world.attempts[id].claim_may_stand = false;
    claim::end(scenario, world, id, answer);
}

/// Whether a batch may record the outcome, and something follows from that. (It can neither release nor abandon.)
pub(crate) fn may_settle(scenario: &Scenario, world: &World, id: AttemptId) -> bool {
    let attempt = &world.attempts[id];
    let is_in_batches = matches!(attempt.stage, Stage::Settling(Disposition::Complete(_)));
    let changes = attempt.answer.is_none() || settles(world, id);
    scenario.servers[id].batches && is_in_batches && !world.is_away && changes
}

/// Records the outcome, if the attempt holds the key and there is nothing special about it. Returns whether it did.
pub(crate) fn settle(scenario: &Scenario, world: &mut World, id: AttemptId) -> bool {
    let settles = settles(world, id);
    if let Stage::Settling(Disposition::Complete(outcome)) = world.attempts[id].stage
        && settles
    {
        record::complete(scenario, world, id, outcome);
    }
    settles
}

/// Whether the `WHERE` of a batch matches: the reservation is the attempt's own.
fn settles(world: &World, id: AttemptId) -> bool {
    let is_own = |record: &Record| record.outcome.is_none() && record.token == world.attempts[id].token;
    matches!(world.attempts[id].stage, Stage::Settling(Disposition::Complete(_)))
        && world.record.as_ref().is_some_and(is_own)
}

/// Inserts a reservation for the call, unless a row is there.
fn reserves(scenario: &Scenario, world: &mut World, id: AttemptId) -> bool {
    match record::view(scenario, world, id) {
        View::Free => {
            record::reserve(world, id);
            true
        }
        View::LeaseEnded if !scenario.holds(Guard::BatchTakesNothingOver) => {
            record::take_over(scenario, world, id);
            true
        }
        _ => false,
    }
}

/// A call that the batch does not answer goes alone. A call that has left the queue ignores the answer.
fn hear(world: &mut World, id: AttemptId, is_told: bool) {
    if is_told && world.attempts[id].stage == Stage::Claiming {
        world.attempts[id].claim_may_stand = false;
        acquire(world, id, Stage::Handling);
    }
}

fn lose(scenario: &Scenario, world: &mut World, id: AttemptId) {
    world.attempts[id].claim_may_stand |= scenario.holds(Guard::LostBatchMayStand);
}

/// The answer of a look, if it has one.
fn looked(scenario: &Scenario, world: &World, id: AttemptId) -> Option<Answer> {
    match record::view(scenario, world, id) {
        View::Completed(outcome) => Some(Answer::Replayed(outcome)),
        View::InFlight => Some(Answer::InFlight),
        View::Mine if !scenario.holds(Guard::LookKnowsItsToken) => Some(Answer::InFlight),
        View::LeaseEnded if !scenario.holds(Guard::LookWaitsForLeases) => Some(Answer::InFlight),
        View::Free | View::LeaseEnded | View::Mine | View::OutcomeUnknown => None,
    }
}
