//! Conditions that must be seen at least once. A scenario without a violation must not be one in which nothing happens.

use crate::{
    properties::Condition,
    world::{Answer, Attempt, Disposition, Outcome, Record, Stage, Transaction, World},
};

pub(crate) const CLAIM_MAY_COME: Condition =
    ("a call has ended, and a claim of it may still come before its key is let go", |_, world| {
        any(world, |attempt| attempt.stage == Stage::Settling(Disposition::Release) && attempt.stray_claim)
    });

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

pub(crate) const CONFLICT: Condition =
    ("a conflict is told", |_, world| any(world, |attempt| attempt.answer == Some(Answer::Conflict)));

pub(crate) const FENCED: Condition = ("a completion is refused after a takeover", |_, world| {
    any(world, |attempt| attempt.fenced && matches!(attempt.answer, Some(Answer::Own(_))))
});

pub(crate) const FINAL_ERROR_REPLAYED: Condition = ("a final error is replayed", |_, world| {
    any(world, |attempt| matches!(attempt.answer, Some(Answer::Replayed(Outcome::FinalError(_)))))
});

pub(crate) const FOREIGN_WAITS: Condition =
    ("a retry waits for a reservation of the Go interceptor whose server has crashed", |_, world| {
        let is_left = |record: &Record| record.is_foreign() && world.attempts[record.owner].stage == Stage::Crashed;
        world.record.as_ref().is_some_and(is_left) && any(world, |attempt| attempt.answer == Some(Answer::InFlight))
    });

pub(crate) const FOUND_COMMITTED: Condition = ("a lost commit is looked up and found", |_, world| {
    any(world, |attempt| matches!(attempt.answer, Some(Answer::FoundCommitted(_))))
});

pub(crate) const FOUND_ROLLED_BACK: Condition = ("a lost commit is looked up and not found", |_, world| {
    any(world, |attempt| attempt.answer == Some(Answer::RolledBack))
});

pub(crate) const FREED_IN_BACKGROUND: Condition =
    ("a call is refused, and its claim, which stands, is still to be released", |_, world| {
        any(world, |attempt| attempt.answer == Some(Answer::NotRun) && attempt.stage.is_at_work()) && world.lease_runs()
    });

pub(crate) const GIVEN_BACK: Condition = ("a reservation that was taken over is given back", |_, world| {
    any(world, |attempt| attempt.answer == Some(Answer::NotRun) && attempt.stage == Stage::Ended && !attempt.fenced)
        && takeovers(world) > 0
        && !world.lease_runs()
});

pub(crate) const IN_FLIGHT: Condition =
    ("a duplicate meets a call in flight", |_, world| any(world, |attempt| attempt.answer == Some(Answer::InFlight)));

pub(crate) const LATE_HEARTBEAT: Condition = ("a heartbeat revives a lease that had ended", |_, world| {
    world.history.lives.iter().any(|life| life.lease_ended) && world.lease_runs() && takeovers(world) == 0
});

pub(crate) const NOT_RUN: Condition = ("a call is refused before its handler ran", |_, world| {
    any(world, |attempt| attempt.answer == Some(Answer::NotRun) && attempt.stage == Stage::Ended)
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

pub(crate) const REPLAYED_DESPITE_STATUS: Condition =
    ("a response is replayed after its status was slow", |scenario, world| {
        let was_slow = world.left.slow_statuses < scenario.chaos.slow_statuses;
        was_slow && any(world, |attempt| matches!(attempt.answer, Some(Answer::Replayed(_))))
    });

pub(crate) const SETTLED_IN_BACKGROUND: Condition = ("a response is given before it is recorded", |_, world| {
    any(world, |attempt| matches!(attempt.stage, Stage::Settling(Disposition::Complete(_))) && attempt.answer.is_some())
});

pub(crate) const SHARED: Condition =
    ("a batch claims for two calls with one key, and one of them gets it", |_, world| world.history.shared);

pub(crate) const TAKEN_OVER: Condition = ("a reservation is taken over", |_, world| takeovers(world) > 0);

pub(crate) const TAKEN_OVER_TWICE: Condition = ("a reservation is taken over twice", |_, world| takeovers(world) > 1);

pub(crate) const TWO_EFFECTS: Condition =
    ("a call is run again after a lease ended, and has two effects", |_, world| {
        (0..world.history.lives.len()).any(|life| world.effects_in(life) > 1)
    });

pub(crate) const UNHELD_RUN: Condition = (
    "a handler runs unprotected beside another call, and there are two effects without an end of a lease",
    |_, world| {
        (0..world.history.lives.len()).any(|life| world.effects_in(life) > 1 && !world.history.lives[life].lease_ended)
    },
);

pub(crate) const UNPROTECTED_AND_FENCED: Condition =
    ("an unprotected run whose claim stood is taken over, and cannot record its response", |_, world| {
        let is_fenced = |attempt: &Attempt| attempt.claim_may_stand && attempt.fenced && attempt.effect.is_some();
        world.history.lives.iter().all(|life| life.unheld_runs == 0) && takeovers(world) > 0 && any(world, is_fenced)
    });

pub(crate) const UNPROTECTED_AND_RECORDED: Condition =
    ("a handler runs unprotected while its claim stands, and a retry gets the response", |_, world| {
        let unprotected = |id: usize| world.attempts[id].claim_may_stand && world.attempts[id].effect.is_some();
        world.history.lives.iter().all(|life| life.unheld_runs == 0)
            && any(world, |attempt| match attempt.answer {
                Some(Answer::Replayed(outcome @ Outcome::Response(_))) => unprotected(outcome.by()),
                _ => false,
            })
    });

fn any(world: &World, is_it: impl Fn(&Attempt) -> bool) -> bool {
    world.attempts.iter().any(is_it)
}

fn takeovers(world: &World) -> u8 {
    world.record.as_ref().map_or(0, |record: &Record| record.takeovers)
}
