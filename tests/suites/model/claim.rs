//! A claim: asked, and asked again with the same token if its answer is lost.

use crate::{
    guards::Guard,
    record::{self, View},
    reserved::{Fate, acquire, holds_lease},
    scenario::Scenario,
    world::{Answer, AttemptId, Stage, World},
};

/// Sends a claim and waits for the answer.
pub(crate) fn ask(scenario: &Scenario, world: &mut World, id: AttemptId, fate: Fate) {
    let peeked = match world.attempts[id].stage {
        Stage::Peeked(look) => Some(look),
        _ => None,
    };
    match fate {
        Fate::Answered => {
            world.attempts[id].stage = Stage::Claiming;
            match carry_out(scenario, world, id) {
                Claimed::Acquired { taken_over } if taken_over && scenario.reconciles(id) => {
                    acquire(world, id, Stage::Reconciling(peeked));
                }
                Claimed::Acquired { .. } => acquire(world, id, Stage::Handling),
                Claimed::Looked => world.attempts[id].stage = Stage::Looked,
                Claimed::Refused(answer) => {
                    world.history.waited_for_itself |= answer == Answer::InFlight && holds_lease(world, id);
                    world.attempts[id].life = Some(world.life());
                    world.attempts[id].end(answer);
                }
            }
        }
        Fate::AnswerLost => {
            world.left.losses -= 1;
            carry_out(scenario, world, id);
            world.attempts[id].stage = Stage::Claiming;
        }
        Fate::Lost => {
            world.left.losses -= 1;
            world.attempts[id].stray_claim = true;
            world.attempts[id].stage = Stage::Claiming;
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claimed {
    Acquired {
        taken_over: bool,
    },
    /// Seen, and not yet inserted. Only with a guard left out.
    Looked,
    Refused(Answer),
}

/// The claim in the database, whether or not its sender still waits.
pub(crate) fn carry_out(scenario: &Scenario, world: &mut World, id: AttemptId) -> Claimed {
    match record::view(scenario, world, id) {
        View::Completed(outcome) => Claimed::Refused(Answer::Replayed(outcome)),
        View::Free if !scenario.holds(Guard::ClaimIsOneStep) => Claimed::Looked,
        View::Free => {
            record::reserve(world, id);
            Claimed::Acquired { taken_over: false }
        }
        View::InFlight => Claimed::Refused(Answer::InFlight),
        View::LeaseEnded => {
            if !scenario.reconciles(id) || scenario.holds(Guard::ReconcileTakesOver) {
                record::take_over(scenario, world, id);
            }
            Claimed::Acquired { taken_over: true }
        }
        View::Mine => {
            let taken_over = world.record.as_ref().is_some_and(|record| record.takeovers > 0);
            Claimed::Acquired { taken_over: taken_over && scenario.holds(Guard::ClaimRemembersTakeover) }
        }
        View::OutcomeUnknown => Claimed::Refused(Answer::OutcomeUnknown),
    }
}
