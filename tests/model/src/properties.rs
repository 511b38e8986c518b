//! The conditions that hold in every state.

use stateright::{Model, Property};

use crate::{
    record::{self, View},
    scenario::{Foreign, Mode, Policy, Scenario, Server, StorePolicy},
    world::{Answer, Attempt, AttemptId, Outcome, Record, Stage, Transaction, World},
};

/// A condition with its name. The table in `main.rs` lists them.
pub(crate) type Condition = (&'static str, fn(&Scenario, &World) -> bool);

/// The properties of a scenario.
pub(crate) fn of(scenario: &Scenario) -> Vec<Property<Scenario>> {
    let transactional = if scenario.has(Mode::Transactional) { TRANSACTIONAL } else { &[] };
    let one_effect: &[Condition] = if scenario.allows_one_effect_at_most() { &[ONE_EFFECT] } else { &[] };
    let always = [EVERYWHERE, transactional, one_effect].concat();
    always
        .into_iter()
        .map(|(name, condition)| Property::always(name, condition))
        .chain(scenario.sights.iter().map(|&(name, condition)| Property::sometimes(name, condition)))
        .collect()
}

const EVERYWHERE: &[Condition] = &[
    ABANDONED_IS_ANSWERED,
    ABANDONED_IS_NOT_RERUN,
    ANSWERS_AGREE,
    ANSWERS_WERE_DONE,
    EVERY_RUN_COMES_TO_REST,
    FENCED_CHANGE_NOTHING,
    NOBODY_IS_REFUSED_FOR_ANOTHER,
    NOBODY_IS_STARVED,
    NOBODY_WAITS_FOR_ITSELF,
    NOBODY_WAITS_FOR_NOTHING,
    NOTHING_DONE_IS_TRUE,
    NO_KEY_IS_STUCK,
    NO_RESERVATION_IS_FORGOTTEN,
    ONE_EFFECT_UNLESS_LEASE_ENDED,
    RECORDS_ARE_FINAL,
    REPLAYS_WERE_RECORDED,
    SLOW_STATUS_WITHHOLDS_NOTHING,
    UNPROTECTED_IF_UNREACHABLE,
];

const TRANSACTIONAL: &[Condition] = &[
    CONFLICTS_ARE_NOT_RECORDED,
    CONFLICTS_ARE_TOLD,
    EFFECT_AND_RECORD_ARE_ONE,
    NO_RUN_BESIDE_A_RECORD,
    ONE_TRANSACTION_AT_A_TIME,
    TRANSACTIONAL_ANSWERS,
];

pub(crate) const ABANDONED_IS_ANSWERED: Condition = ("an abandoned key is not in flight", |_, world| {
    !world.record.as_ref().is_some_and(|record| record.lease_runs && record.abandoned == Some(record.takeovers))
});

pub(crate) const ABANDONED_IS_NOT_RERUN: Condition =
    ("an abandoned call is run again only if a reconciler allows it", |_, world| !world.history.reran_abandoned);

const ANSWERS_AGREE: Condition =
    ("all answers of one life agree, unless a lease ended or a call ran unprotected in it", |_, world| {
        world.history.lives.iter().enumerate().all(|(index, life)| {
            let mut outcomes = answers(world, index).filter_map(Answer::outcome);
            let first = outcomes.next();
            life.lease_ended || life.unheld_runs > 0 || outcomes.all(|outcome| Some(outcome) == first)
        })
    });

const ANSWERS_WERE_DONE: Condition = ("every answer and every record is of something that was done", |_, world| {
    let answered = world.attempts.iter().filter_map(|attempt| attempt.answer?.outcome());
    let recorded = world.history.lives.iter().filter_map(|life| life.recorded);
    answered.chain(recorded).all(|outcome| match outcome {
        Outcome::FinalError(id) => world.attempts[id].effect.is_none(),
        Outcome::Response(id) => world.attempts[id].effect.is_some(),
    })
});

pub(crate) const CONFLICTS_ARE_NOT_RECORDED: Condition = ("a conflict is not a final error", |_, world| {
    world.history.lives.iter().all(|life| {
        let failed = |outcome| if let Outcome::FinalError(id) = outcome { Some(id) } else { None };
        !life.recorded.and_then(failed).is_some_and(|id| world.attempts[id].in_conflict)
    })
});

pub(crate) const CONFLICTS_ARE_TOLD: Condition =
    ("a call whose transaction lost a conflict is told so, unless the answer is not known", |_, world| {
        let in_conflict = world.attempts.iter().filter(|attempt| attempt.in_conflict);
        in_conflict.filter_map(|attempt| attempt.answer).all(|it| matches!(it, Answer::Conflict | Answer::Unavailable))
    });

pub(crate) const EFFECT_AND_RECORD_ARE_ONE: Condition =
    ("a transactional effect is there exactly if its record is", |scenario, world| {
        transactional(scenario, world).all(|(id, attempt)| {
            let recorded = |life: usize| world.history.lives[life].recorded == Some(Outcome::Response(id));
            (0..world.history.lives.len()).all(|life| recorded(life) == (attempt.effect == Some(life)))
        })
    });

/// Every run is finite (`scenarios::ends_every_run`). So this condition means that each run comes to rest from every
/// state. It is checked in the states without a successor. It is not an `eventually` property: the checker may take
/// that for true too early where two paths join, and the initial state, which is at rest, would satisfy it.
pub(crate) const EVERY_RUN_COMES_TO_REST: Condition = ("a run that can go no further is at rest", |scenario, world| {
    let mut actions = Vec::new();
    if !world.is_at_rest() {
        scenario.actions(world, &mut actions);
    }
    world.is_at_rest() || !actions.is_empty()
});

pub(crate) const FENCED_CHANGE_NOTHING: Condition =
    ("a worker whose reservation was taken over changes nothing", |_, world| !world.history.trespassed);

pub(crate) const NOBODY_IS_REFUSED_FOR_ANOTHER: Condition =
    ("no call is refused because of another call in its batch", |_, world| !world.history.refused_for_another);

pub(crate) const NOBODY_IS_STARVED: Condition =
    ("transactions leave a connection to claims, and one user's leave a permit to others", |_, world| {
        !world.history.starved
    });

pub(crate) const NOBODY_WAITS_FOR_ITSELF: Condition =
    ("no attempt is told to wait for itself", |_, world| !world.history.waited_for_itself);

pub(crate) const NOBODY_WAITS_FOR_NOTHING: Condition =
    ("no attempt is told to wait for a lease that has ended", |_, world| !world.history.waited_for_nothing);

pub(crate) const NO_RESERVATION_IS_FORGOTTEN: Condition =
    ("a call that has ended holds no reservation", |scenario, world| held_after_the_end(scenario, world).is_none());

/// The next claim, in either mode, gets the key, a replay, or (by policy) the answer that the outcome is unknown. After
/// a call of the Go interceptor it may have to wait until the reservation expires.
pub(crate) const NO_KEY_IS_STUCK: Condition = ("at rest the next claim is answered", |scenario, world| {
    let record = world.record.as_ref();
    let abandoned = record.is_some_and(|record| record.abandoned.is_some());
    let is_answered = |on_lease_ended| match record::view_as(scenario, record, None, claimant(on_lease_ended)) {
        View::Completed(_) | View::Free | View::LeaseEnded => true,
        View::InFlight | View::Mine => false,
        View::OutcomeUnknown => on_lease_ended == Policy::Refuse || abandoned,
    };
    let are_answered = record.is_some_and(Record::is_foreign)
        || [Policy::Reconcile, Policy::Refuse, Policy::Rerun].into_iter().all(is_answered);
    !world.is_at_rest() || (world.lock.is_none() && are_answered)
});

/// In vain, since its record is refused.
pub(crate) const NO_RUN_BESIDE_A_RECORD: Condition =
    ("where all servers are transactional, no handler runs while the key has an outcome", |scenario, world| {
        let all_are = scenario.servers.iter().all(|server| server.mode == Mode::Transactional);
        let runs = |attempt: &Attempt| attempt.stage == Stage::Handling && attempt.transaction == Transaction::Open;
        let has_outcome = world.record.as_ref().is_some_and(|record| record.outcome.is_some());
        !(all_are && has_outcome && world.attempts.iter().any(runs))
    });

pub(crate) const NOTHING_DONE_IS_TRUE: Condition = ("an answer that nothing was done is true", |_, world| {
    let told = |attempt: &&Attempt| {
        matches!(attempt.answer, Some(Answer::Conflict | Answer::Failed | Answer::NotRun | Answer::RolledBack))
    };
    world.attempts.iter().filter(told).all(|attempt| attempt.effect.is_none())
});

/// An unprotected run whose claim stands when it begins is protected after all. But if its claim took over, the
/// reconciler should have been asked first.
pub(crate) const ONE_EFFECT: Condition =
    ("at most one effect, and one of each unprotected run without a claim of its own", |_, world| {
        (0..world.history.lives.len()).all(|life| has_one_effect(world, life))
    });

pub(crate) const ONE_EFFECT_UNLESS_LEASE_ENDED: Condition =
    ("at most one effect, and one of each such run, unless a lease ended without an outcome", |_, world| {
        let ended = |life: usize| world.history.lives[life].lease_ended;
        (0..world.history.lives.len()).all(|life| ended(life) || has_one_effect(world, life))
    });

pub(crate) const ONE_TRANSACTION_AT_A_TIME: Condition = ("one transaction at a time", |_, world| {
    world.attempts.iter().filter(|attempt| attempt.transaction.is_running()).count() <= 1
});

pub(crate) const RECORDS_ARE_FINAL: Condition =
    ("a completed record does not change while it lives", |_, world| !world.history.rewritten);

const REPLAYS_WERE_RECORDED: Condition = ("a replay repeats what was recorded", |_, world| {
    world.attempts.iter().all(|attempt| match (attempt.answer, attempt.life) {
        (Some(Answer::Replayed(outcome)), Some(life)) => world.history.lives[life].recorded == Some(outcome),
        (Some(Answer::Replayed(_)), None) => false,
        _ => true,
    })
});

pub(crate) const SLOW_STATUS_WITHHOLDS_NOTHING: Condition =
    ("a slow status does not keep a response from a retry", |_, world| !world.history.withheld);

pub(crate) const TRANSACTIONAL_ANSWERS: Condition =
    ("a transactional server's answer is the one in the record", |scenario, world| {
        transactional(scenario, world).all(|(_, attempt)| {
            let outcome = attempt.answer.and_then(Answer::outcome);
            let recorded = attempt.life.and_then(|life| world.history.lives[life].recorded);
            outcome.is_none() || outcome == recorded
        })
    });

pub(crate) const UNPROTECTED_IF_UNREACHABLE: Condition =
    ("a handler runs unprotected only if the store cannot be asked", |_, world| {
        !world.history.proceeded_though_reachable
    });

/// The attempt that has ended, and still holds a reservation that it has not let go.
fn held_after_the_end<'a>(scenario: &Scenario, world: &'a World) -> Option<&'a Attempt> {
    let record = world.record.as_ref().filter(|record| record.outcome.is_none() && !record.let_go)?;
    let is_reserved = scenario.servers[record.owner].mode == Mode::Reserved;
    let owner = &world.attempts[record.owner];
    (is_reserved && owner.stage == Stage::Ended).then_some(owner)
}

fn has_one_effect(world: &World, life: usize) -> bool {
    world.effects_in(life) <= 1 + usize::from(world.history.lives[life].unheld_runs)
}

fn claimant(on_lease_ended: Policy) -> Server {
    Server {
        mode: Mode::Reserved,
        on_foreign_reservation: Foreign::OnLeaseEnded,
        on_lease_ended,
        on_store_unavailable: StorePolicy::Reject,
        batches: false,
    }
}

fn answers(world: &World, life: usize) -> impl Iterator<Item = Answer> {
    world.attempts.iter().filter(move |attempt| attempt.life == Some(life)).filter_map(|attempt| attempt.answer)
}

fn transactional<'a>(scenario: &'a Scenario, world: &'a World) -> impl Iterator<Item = (AttemptId, &'a Attempt)> {
    let is_transactional = |&(id, _): &(AttemptId, _)| scenario.servers[id].mode == Mode::Transactional;
    world.attempts.iter().enumerate().filter(is_transactional)
}
