//! A server in reserved mode: claim, run the handler in its own transactions, settle.

use crate::{
    claim,
    guards::Guard,
    record,
    request::{Fate, fates_of_claim, fates_of_settlement},
    scenario::{Policy, Scenario},
    together,
    unprotected::{self, Probe, probes},
    world::{Answer, AttemptId, Disposition, Outcome, Stage, World},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Claim(Fate),
    /// No claim was answered, and a probe asks whether the store answers at all.
    Decide(Probe),
    /// The server gives up recording the outcome, because the lease is over. Only with a guard left out.
    GiveUp,
    /// The second half of a claim that is not one statement. Only with a guard left out.
    Insert,
    /// A statement that only reads answers the claim.
    Look,
    /// The reconciler is asked before the key is claimed. Only with a guard left out.
    Peek,
    /// The claim waits for the next batch.
    Queue,
    Reconcile(Word),
    Run(Ending),
    Settle(Fate),
    /// The outcome is recorded by a batch, which says nothing about a call that needs more than that.
    SettleTogether,
}

/// The end of a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// An error or a panic, without an effect.
    Fails,
    /// A final error, without an effect.
    FailsFinally,
    /// An error or a panic after the effect was committed and the handler had reported that.
    FailsLate,
    Succeeds,
}

/// The answer of the reconciler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Truth,
    Unknown,
}

pub(crate) fn steps(scenario: &Scenario, world: &World, id: AttemptId) -> Vec<Step> {
    let attempt = &world.attempts[id];
    match attempt.stage {
        Stage::Waiting if !scenario.may_be_sent(world, id) => vec![],
        Stage::Waiting if scenario.reconciles(id) && !scenario.holds(Guard::ReconcileLooksLast) => vec![Step::Peek],
        Stage::Waiting | Stage::Peeked(_) => {
            let queue = scenario.servers[id].batches.then_some(Step::Queue);
            claims(scenario, world, id).chain(queue).chain(looks(scenario, world, id)).collect()
        }
        Stage::Claiming => {
            let probes = probes(world).map(Step::Decide);
            claims(scenario, world, id).chain(probes).chain(looks(scenario, world, id)).collect()
        }
        Stage::Looked => vec![Step::Insert],
        Stage::Reconciling(_) => vec![Step::Reconcile(Word::Truth), Step::Reconcile(Word::Unknown)],
        Stage::Handling | Stage::Unprotected => {
            let kept = scenario.chaos.final_errors.then_some(Ending::FailsFinally);
            let endings = [Ending::Succeeds, Ending::Fails, Ending::FailsLate].into_iter().chain(kept);
            endings.map(Step::Run).collect()
        }
        Stage::Settling(disposition) if waits_for_claims(scenario, world, id, disposition) => vec![],
        Stage::Settling(_) => {
            let is_late = attempt.answer.is_some() && !holds_lease(world, id);
            let gives_up = is_late && !scenario.holds(Guard::RecordingOutlivesLease);
            let fates = fates_of_settlement(scenario, world, id);
            let together = together::may_settle(scenario, world, id).then_some(Step::SettleTogether);
            fates.into_iter().map(Step::Settle).chain(gives_up.then_some(Step::GiveUp)).chain(together).collect()
        }
        Stage::LookingUp(..) | Stage::Ended | Stage::Crashed => vec![],
    }
}

pub(crate) fn take(scenario: &Scenario, world: &mut World, id: AttemptId, step: Step) {
    match step {
        Step::Claim(fate) => claim::ask(scenario, world, id, fate),
        Step::Decide(probe) => unprotected::decide(scenario, world, id, probe),
        Step::GiveUp => world.attempts[id].stage = Stage::Ended,
        Step::Insert => {
            record::reserve(world, id);
            acquire(world, id, Stage::Handling);
        }
        Step::Look => together::look(scenario, world, id),
        Step::Peek => world.attempts[id].stage = Stage::Peeked(world.effect()),
        Step::Queue => {
            world.attempts[id].queued = true;
            world.attempts[id].stage = Stage::Claiming;
        }
        Step::Reconcile(word) => reconcile(world, id, word),
        Step::Run(ending) => run(scenario, world, id, ending),
        Step::Settle(fate) => settle(scenario, world, id, fate),
        Step::SettleTogether => settle_together(scenario, world, id),
    }
}

pub(crate) fn acquire(world: &mut World, id: AttemptId, next: Stage) {
    world.attempts[id].life = Some(world.life());
    world.attempts[id].stage = next;
}

fn reconcile(world: &mut World, id: AttemptId, word: Word) {
    let seen = match world.attempts[id].stage {
        Stage::Reconciling(Some(peeked)) => peeked,
        _ => world.effect(),
    };
    world.attempts[id].stage = match (word, seen) {
        (Word::Truth, Some(executed)) => Stage::Settling(Disposition::Complete(Outcome::Response(executed))),
        (Word::Truth, None) => Stage::Handling,
        (Word::Unknown, _) => {
            world.attempts[id].answer = Some(Answer::OutcomeUnknown);
            Stage::Settling(Disposition::Abandon)
        }
    };
}

fn run(scenario: &Scenario, world: &mut World, id: AttemptId, ending: Ending) {
    let is_recorded = world.attempts[id].stage == Stage::Handling || unprotected::is_recorded(scenario, world, id);
    let attempt = &mut world.attempts[id];
    if matches!(ending, Ending::Succeeds | Ending::FailsLate) {
        attempt.effect = attempt.life;
    }
    let disposition = match ending {
        Ending::Fails => Disposition::Release,
        Ending::FailsFinally => Disposition::Complete(Outcome::FinalError(id)),
        Ending::FailsLate if scenario.holds(Guard::LateFailureAbandons) => Disposition::Abandon,
        Ending::FailsLate => Disposition::Release,
        Ending::Succeeds => Disposition::Complete(Outcome::Response(id)),
    };
    attempt.stage = Stage::Settling(disposition);
    if !is_recorded {
        let answer = first_answer(world, id, disposition);
        world.attempts[id].end(answer);
    }
}

/// Tries to record the outcome. The client gets its answer after the first try, whether or not that succeeded.
fn settle(scenario: &Scenario, world: &mut World, id: AttemptId, fate: Fate) {
    let Stage::Settling(disposition) = world.attempts[id].stage else {
        return;
    };
    let answer = first_answer(world, id, disposition);
    world.attempts[id].answer.get_or_insert(answer);
    fate.spend(&mut world.left);
    if fate == Fate::Refused && !scenario.holds(Guard::RecordingOutlivesRefusals) {
        world.attempts[id].stage = Stage::Ended;
    }
    if matches!(fate, Fate::Lost | Fate::Refused | Fate::Unsent) {
        return;
    }
    let settled = match disposition {
        Disposition::Abandon => record::abandon(scenario, world, id),
        Disposition::Complete(outcome) => record::complete(scenario, world, id, outcome),
        Disposition::Release => record::release(scenario, world, id),
    };
    if fate == Fate::Answered {
        world.attempts[id].stage = Stage::Ended;
        world.attempts[id].fenced = !settled;
    }
}

/// Tries to record the outcome by a batch. The next try is a statement of its own.
fn settle_together(scenario: &Scenario, world: &mut World, id: AttemptId) {
    let Stage::Settling(disposition) = world.attempts[id].stage else {
        return;
    };
    let answer = first_answer(world, id, disposition);
    let attempt = &mut world.attempts[id];
    attempt.answer.get_or_insert(answer);
    if together::settle(scenario, world, id) {
        world.attempts[id].stage = Stage::Ended;
    }
}

fn first_answer(world: &World, id: AttemptId, disposition: Disposition) -> Answer {
    match disposition {
        Disposition::Complete(outcome) if outcome.by() == id => Answer::Own(outcome),
        Disposition::Complete(outcome) => Answer::Reconciled(outcome),
        _ if world.attempts[id].effect.is_some() => Answer::Doubtful,
        _ => Answer::Failed,
    }
}

fn claims(scenario: &Scenario, world: &World, id: AttemptId) -> impl Iterator<Item = Step> + use<> {
    fates_of_claim(scenario, world, id).into_iter().map(Step::Claim)
}

fn looks(scenario: &Scenario, world: &World, id: AttemptId) -> Option<Step> {
    together::look_decides(scenario, world, id).then_some(Step::Look)
}

/// Whether a claim of the attempt may still come, and affect the disposition. It cannot if the attempt holds the reservation and records an
/// outcome.
fn waits_for_claims(scenario: &Scenario, world: &World, id: AttemptId, disposition: Disposition) -> bool {
    let is_held = world.record.as_ref().is_some_and(|record| record.token == world.attempts[id].token);
    claim::may_come(scenario, world, id) && !(is_held && matches!(disposition, Disposition::Complete(_)))
}

/// Whether the attempt's reservation is there, with a running lease.
pub(crate) fn holds_lease(world: &World, id: AttemptId) -> bool {
    world.lease_runs() && world.record.as_ref().is_some_and(|record| record.token == world.attempts[id].token)
}

impl Scenario {
    pub(crate) fn reconciles(&self, id: AttemptId) -> bool {
        self.servers[id].on_lease_ended == Policy::Reconcile
    }
}
