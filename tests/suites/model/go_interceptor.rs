//! A server as FUN-15 describes it: reserve, execute, complete or unreserve, by the key alone.
//!
//! It knows no token, no lease and no advisory lock, and never asks twice. (That it runs its handler unprotected where
//! the database does not answer is left out: nothing on the table can guard against that.)

use crate::{
    record,
    scenario::Scenario,
    world::{Answer, AttemptId, Outcome, Settlement, Stage, World},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Fail,
    Reserve,
    Settle,
    Succeed,
}

pub(crate) fn steps(scenario: &Scenario, world: &World, id: AttemptId) -> impl Iterator<Item = Step> + use<> {
    let steps: &[Step] = match world.attempts[id].stage {
        Stage::Waiting if scenario.may_be_sent(world, id) => &[Step::Reserve],
        Stage::Handling => &[Step::Succeed, Step::Fail],
        Stage::Settling(_) => &[Step::Settle],
        _ => &[],
    };
    steps.iter().copied()
}

pub(crate) fn take(scenario: &Scenario, world: &mut World, id: AttemptId, step: Step) {
    match step {
        Step::Fail => world.attempts[id].stage = Stage::Settling(Settlement::Release),
        Step::Reserve => reserve(world, id),
        Step::Settle => settle(scenario, world, id),
        Step::Succeed => {
            let attempt = &mut world.attempts[id];
            attempt.effect = attempt.life;
            attempt.stage = Stage::Settling(Settlement::Complete(Outcome::Response(id)));
        }
    }
}

/// INSERT … ON CONFLICT DO NOTHING, and a second look at what stood in the way.
fn reserve(world: &mut World, id: AttemptId) {
    world.attempts[id].life = Some(world.life());
    match world.record.as_ref().map(|record| record.outcome) {
        None => {
            record::reserve(world, id);
            world.attempts[id].stage = Stage::Handling;
        }
        Some(Some(outcome @ Outcome::Response(_))) => world.attempts[id].end(Answer::Replayed(outcome)),
        Some(_) => world.attempts[id].end(Answer::InFlight),
    }
}

fn settle(scenario: &Scenario, world: &mut World, id: AttemptId) {
    match world.attempts[id].stage {
        Stage::Settling(Settlement::Complete(outcome)) => {
            record::complete(scenario, world, id, outcome);
            world.attempts[id].end(Answer::Own(outcome));
        }
        _ => {
            record::release(scenario, world, id);
            world.attempts[id].end(Answer::Failed);
        }
    }
}
