//! A server with the Go interceptor: reserve, execute, complete or unreserve, by the key alone.
//!
//! It has no token, no lease and no advisory lock, and never repeats a request. It runs its handler unprotected if the
//! database does not answer; the model leaves that out, because no guard on the table can prevent it.

use crate::{
    record,
    scenario::Scenario,
    world::{Answer, AttemptId, Disposition, Outcome, Stage, World},
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
        Step::Fail => world.attempts[id].stage = Stage::Settling(Disposition::Release),
        Step::Reserve => reserve(world, id),
        Step::Settle => settle(scenario, world, id),
        Step::Succeed => {
            let attempt = &mut world.attempts[id];
            attempt.effect = attempt.life;
            attempt.stage = Stage::Settling(Disposition::Complete(Outcome::Response(id)));
        }
    }
}

/// INSERT … ON CONFLICT DO NOTHING, then a read of the conflicting record.
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
        Stage::Settling(Disposition::Complete(outcome)) => {
            record::complete(scenario, world, id, outcome);
            world.attempts[id].end(Answer::Own(outcome));
        }
        _ => {
            record::release(scenario, world, id);
            world.attempts[id].end(Answer::Failed);
        }
    }
}
