//! A claim: asked, asked again with the same token if its answer is lost, and given up.

use crate::{
    guards::Guard,
    pool,
    record::{self, View},
    request::Fate,
    reserved::{acquire, holds_lease},
    scenario::Scenario,
    unprotected,
    world::{Answer, AttemptId, Disposition, Stage, World},
};

/// Sends a claim and waits for the answer.
pub(crate) fn ask(scenario: &Scenario, world: &mut World, id: AttemptId, fate: Fate) {
    fate.spend(&mut world.left);
    match fate {
        Fate::Answered => hear(scenario, world, id),
        Fate::AnswerLost => {
            carry_out(scenario, world, id);
            ask_again(scenario, world, id, Sent::Maybe);
        }
        Fate::FullPool => {
            world.history.starved |= pool::is_full(scenario, world);
            refused(scenario, world, id, Guard::FullPoolIsNotUnreachable);
        }
        Fate::Lost => {
            world.attempts[id].stray_claim = true;
            ask_again(scenario, world, id, Sent::Maybe);
        }
        Fate::Misleading => {
            carry_out(scenario, world, id);
            if scenario.holds(Guard::MisleadingClaimMayStand) {
                ask_again(scenario, world, id, Sent::Maybe);
            } else {
                refused(scenario, world, id, Guard::RefusalIsNotUnreachable);
            }
        }
        Fate::OpenTransaction if scenario.holds(Guard::ClaimRefusesOpenTransaction) => {
            ask_again(scenario, world, id, Sent::No);
        }
        Fate::OpenTransaction => {
            let outside = world.record.clone();
            hear(scenario, world, id);
            world.record = outside;
        }
        Fate::Refused => refused(scenario, world, id, Guard::RefusalIsNotUnreachable),
        Fate::SlowStatus if scenario.holds(Guard::SlowStatusIsLeftOut) => ask_again(scenario, world, id, Sent::No),
        Fate::SlowStatus => {
            world.history.withheld = true;
            unprotected::refuse(scenario, world, id);
        }
        Fate::Unsent => ask_again(scenario, world, id, Sent::No),
    }
}

/// Whether a claim that failed may stand, or may stand later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Maybe,
    No,
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

fn hear(scenario: &Scenario, world: &mut World, id: AttemptId) {
    let peeked = match world.attempts[id].stage {
        Stage::Peeked(look) => Some(look),
        _ => None,
    };
    world.attempts[id].claim_may_stand = false;
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
            end(scenario, world, id, answer);
        }
    }
}

/// Ends a call whose key another call holds. If a claim of the ended call may still come, its key is released first: the claim could
/// reserve the key as soon as the holder lets go of it.
pub(crate) fn end(scenario: &Scenario, world: &mut World, id: AttemptId, answer: Answer) {
    if may_come(scenario, world, id) && !matches!(answer, Answer::Replayed(_)) {
        world.attempts[id].answer = Some(answer);
        world.attempts[id].stage = Stage::Settling(Disposition::Release);
    } else {
        world.attempts[id].end(answer);
    }
}

/// Whether the call waits for a claim that may still come.
pub(crate) fn may_come(scenario: &Scenario, world: &World, id: AttemptId) -> bool {
    let waits = scenario.holds(Guard::LateClaimsDoNothing) && scenario.holds(Guard::CallsOutliveTheirClaims);
    waits && world.attempts[id].stray_claim
}

fn ask_again(scenario: &Scenario, world: &mut World, id: AttemptId, sent: Sent) {
    remember(scenario, world, id, sent);
    world.attempts[id].stage = Stage::Claiming;
}

/// The store, or the pool in front of it, refuses the claim.
fn refused(scenario: &Scenario, world: &mut World, id: AttemptId, guard: Guard) {
    remember(scenario, world, id, Sent::No);
    if scenario.holds(guard) {
        unprotected::refuse(scenario, world, id);
    } else {
        unprotected::degrade(scenario, world, id, true);
    }
}

fn remember(scenario: &Scenario, world: &mut World, id: AttemptId, sent: Sent) {
    let before = world.attempts[id].claim_may_stand && scenario.holds(Guard::SentClaimsAreRemembered);
    world.attempts[id].claim_may_stand = before || sent == Sent::Maybe;
}
