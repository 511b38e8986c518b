//! Conditions that must be seen at least once. A scenario without a violation must not be one in which nothing happens.

use crate::{
    properties::Condition,
    world::{Answer, Attempt, Disposition, Outcome, Record, Stage, Transaction, World},
};

pub(crate) const COMMIT_REFUSED: Condition = ("a commit finds the record of another and is rolled back", |_, world| {
    any(world, |attempt| attempt.transaction == Transaction::Refused)
});

pub(crate) const COMMIT_OUTLIVES_CONNECTION: Condition =
    ("a commit is looked up while it is still under way", |_, world| {
        any(world, |attempt| {
            matches!((attempt.stage, attempt.transaction), (Stage::LookingUp(..), Transaction::Committing(_)))
        })
    });

pub(crate) const COMMIT_SURVIVES_ITS_CLIENT: Condition =
    ("a commit succeeds after its client has crashed", |_, world| {
        any(world, |attempt| attempt.stage == Stage::Crashed && attempt.effect.is_some())
    });

pub(crate) const FENCED: Condition = ("a completion is refused after a takeover", |_, world| {
    any(world, |attempt| attempt.fenced && matches!(attempt.answer, Some(Answer::Own(_))))
});

pub(crate) const FINAL_ERROR_REPLAYED: Condition = ("a final error is replayed", |_, world| {
    any(world, |attempt| matches!(attempt.answer, Some(Answer::Replayed(Outcome::FinalError(_)))))
});

pub(crate) const FOUND_COMMITTED: Condition = ("a lost commit is looked up and found", |_, world| {
    any(world, |attempt| matches!(attempt.answer, Some(Answer::FoundCommitted(_))))
});

pub(crate) const FOUND_ROLLED_BACK: Condition = ("a lost commit is looked up and not found", |_, world| {
    any(world, |attempt| attempt.answer == Some(Answer::RolledBack))
});

pub(crate) const GIVEN_BACK: Condition = ("a reservation that was taken over is given back", |_, world| {
    any(world, |attempt| {
        attempt.answer == Some(Answer::Unavailable) && attempt.stage == Stage::Ended && !attempt.fenced
    }) && takeovers(world) > 0
        && !world.lease_runs()
});

pub(crate) const IN_FLIGHT: Condition =
    ("a duplicate meets a call in flight", |_, world| any(world, |attempt| attempt.answer == Some(Answer::InFlight)));

pub(crate) const LATE_HEARTBEAT: Condition = ("a heartbeat revives a lease that had ended", |_, world| {
    world.history.lives.iter().any(|life| life.lease_ended) && world.lease_runs() && takeovers(world) == 0
});

pub(crate) const OUTCOME_UNKNOWN: Condition = ("a duplicate is told that the outcome is unknown", |_, world| {
    any(world, |attempt| attempt.answer == Some(Answer::OutcomeUnknown))
});

pub(crate) const RECONCILED: Condition =
    ("the reconciler finds the effect, and its response is recorded", |_, world| {
        any(world, |attempt| matches!(attempt.answer, Some(Answer::Reconciled(_))) && !attempt.fenced)
    });

pub(crate) const RECORDED_AGAIN: Condition =
    ("a key is used again after its record expired", |_, world| world.life() > 0 && world.record.is_some());

pub(crate) const REPLAYED: Condition = ("a response is replayed", |_, world| {
    any(world, |attempt| matches!(attempt.answer, Some(Answer::Replayed(Outcome::Response(_)))))
});

pub(crate) const SETTLED_IN_BACKGROUND: Condition = ("a response is given before it is recorded", |_, world| {
    any(world, |attempt| matches!(attempt.stage, Stage::Settling(Disposition::Complete(_))) && attempt.answer.is_some())
});

pub(crate) const TAKEN_OVER: Condition = ("a reservation is taken over", |_, world| takeovers(world) > 0);

pub(crate) const TAKEN_OVER_TWICE: Condition = ("a reservation is taken over twice", |_, world| takeovers(world) > 1);

pub(crate) const TWO_EFFECTS: Condition =
    ("a call is run again after a lease ended, and has two effects", |_, world| {
        (0..world.history.lives.len()).any(|life| world.effects_in(life) > 1)
    });

fn any(world: &World, is_it: impl Fn(&Attempt) -> bool) -> bool {
    world.attempts.iter().any(is_it)
}

fn takeovers(world: &World) -> u8 {
    world.record.as_ref().map_or(0, |record: &Record| record.takeovers)
}
