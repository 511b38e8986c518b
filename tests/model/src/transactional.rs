//! A server in transactional mode: BEGIN and read the record, run the handler in the transaction, commit the record and
//! the effect together.
//!
//! The server's state (its stage) and the database's state (the transaction) diverge when either dies, or when the
//! connection between them does.

use crate::{
    guards::Guard,
    pool,
    record::{self, View},
    reserved::Word,
    scenario::{Policy, Scenario},
    together,
    world::{Answer, AttemptId, Disposition, Outcome, Record, Stage, Transaction, World},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// BEGIN, the lock, and then a read of the record: `idempotency_is_free`, and `idempotency_begin_row` for a key that is not free.
    Begin,
    /// The transaction loses a conflict; the handler may not notice.
    Conflict,
    /// The connection is lost, with everything under way on it.
    Disconnect,
    /// The handler fails: ROLLBACK.
    Fail,
    /// The handler fails with a final error.
    FailFinally,
    /// The lock was not granted in time.
    GiveUp,
    /// The answer to COMMIT arrives.
    Hear,
    /// A statement that only reads answers the call, without a transaction.
    Look,
    /// The lost COMMIT is looked up, by `idempotency_committed_row`: the same lock on another connection, then a read of the record.
    LookUp,
    /// The pooler in front of the database loses its server, and answers the COMMIT with an error.
    Mislead,
    /// The record is read before the lock is granted, of a call that begins or a COMMIT that is looked up. Only with a guard left out.
    Peek,
    /// The reconciler is asked, with the transaction open.
    Reconcile(Word),
    /// The record and COMMIT arrive at the database (`idempotency_commit_row` for a key that was not free), or the server learns that the transaction is gone.
    SendCommit,
    Succeed,
}

pub(crate) fn steps(scenario: &Scenario, world: &World, id: AttemptId) -> Vec<Step> {
    let attempt = &world.attempts[id];
    let disconnect = (world.left.losses > 0 && attempt.transaction != Transaction::None).then_some(Step::Disconnect);
    match attempt.stage {
        Stage::Waiting if scenario.may_be_sent(world, id) && !scenario.holds(Guard::BeginLooksLast) => vec![Step::Peek],
        Stage::Looked => vec![Step::Begin],
        Stage::Waiting if scenario.may_be_sent(world, id) => {
            let look = together::look_decides(scenario, world, id).then_some(Step::Look);
            [Step::Begin].into_iter().chain(look).collect()
        }
        Stage::Reconciling(_) => {
            [Word::Truth, Word::Unknown].map(Step::Reconcile).into_iter().chain(disconnect).collect()
        }
        Stage::Handling => {
            let kept = scenario.chaos.final_errors.then_some(Step::FailFinally);
            let can_conflict = world.left.conflicts > 0 && attempt.transaction == Transaction::Open;
            let conflict = (can_conflict && !attempt.in_conflict).then_some(Step::Conflict);
            [Step::Succeed, Step::Fail].into_iter().chain(kept).chain(conflict).chain(disconnect).collect()
        }
        Stage::Settling(_) => {
            let next = match attempt.transaction {
                Transaction::None | Transaction::Open => Some(Step::SendCommit),
                Transaction::Committing(_) => None,
                Transaction::Committed | Transaction::Refused => Some(Step::Hear),
            };
            let is_sent = !matches!(attempt.transaction, Transaction::None | Transaction::Open);
            let mislead = (world.left.misleading_answers > 0 && is_sent).then_some(Step::Mislead);
            next.into_iter().chain(mislead).chain(disconnect).collect()
        }
        Stage::LookingUp(_, None) if !scenario.holds(Guard::LookUpLooksLast) => vec![Step::Peek, Step::GiveUp],
        Stage::LookingUp(..) => {
            let is_granted = world.lock.is_none() || !scenario.holds(Guard::LookUpTakesLock);
            let may_look = is_granted && !world.is_away && !pool::is_full(scenario, world);
            may_look.then_some(Step::LookUp).into_iter().chain([Step::GiveUp]).collect()
        }
        _ => vec![],
    }
}

pub(crate) fn take(scenario: &Scenario, world: &mut World, id: AttemptId, step: Step) {
    match step {
        Step::Begin => begin(scenario, world, id),
        Step::Conflict => {
            world.left.conflicts -= 1;
            world.attempts[id].in_conflict = true;
        }
        Step::Disconnect => {
            world.left.losses -= 1;
            lose_answer(world, id);
            doubt(scenario, world, id);
        }
        Step::Fail if world.attempts[id].in_conflict => roll_back(world, id, Answer::Conflict),
        Step::Fail => roll_back(world, id, Answer::Failed),
        Step::FailFinally if world.attempts[id].in_conflict && scenario.holds(Guard::ConflictIsNotFinal) => {
            roll_back(world, id, Answer::Conflict);
        }
        Step::FailFinally => world.attempts[id].stage = Stage::Settling(Disposition::Complete(Outcome::FinalError(id))),
        Step::GiveUp => world.attempts[id].end(Answer::Unavailable),
        Step::Hear => hear(scenario, world, id),
        Step::Look => together::look(scenario, world, id),
        Step::LookUp => look_up(scenario, world, id),
        Step::Mislead => {
            world.left.misleading_answers -= 1;
            lose_answer(world, id);
            if scenario.holds(Guard::MisleadingCommitIsLookedUp) {
                doubt(scenario, world, id);
            } else {
                world.attempts[id].end(Answer::RolledBack);
            }
        }
        Step::Peek if world.attempts[id].stage == Stage::Waiting => match record::view(scenario, world, id) {
            View::Free => world.attempts[id].stage = Stage::Looked,
            _ => begin(scenario, world, id),
        },
        Step::Peek => {
            let seen = Some(sees_its_record(scenario, world, id));
            if let Stage::LookingUp(outcome, _) = world.attempts[id].stage {
                world.attempts[id].stage = Stage::LookingUp(outcome, seen);
            }
        }
        Step::Reconcile(word) => reconcile(world, id, word),
        Step::SendCommit => send_commit(scenario, world, id),
        Step::Succeed if world.attempts[id].in_conflict && scenario.holds(Guard::ConflictDecidesFirst) => {
            roll_back(world, id, Answer::Conflict);
        }
        Step::Succeed => {
            if !scenario.holds(Guard::EffectInTransaction) {
                world.attempts[id].effect = Some(world.life());
            }
            world.attempts[id].stage = Stage::Settling(Disposition::Complete(Outcome::Response(id)));
        }
    }
}

/// Carries out a COMMIT that has arrived: both the record and the effect, or neither.
pub(crate) fn execute(scenario: &Scenario, world: &mut World, id: AttemptId) {
    let Transaction::Committing(outcome) = world.attempts[id].transaction else {
        return;
    };
    let committed = insert(scenario, world, id, outcome) || !scenario.holds(Guard::CommitRaises);
    end(world, id);
    if committed {
        let life = world.life();
        let attempt = &mut world.attempts[id];
        attempt.life = Some(life);
        if outcome == Outcome::Response(id) && scenario.holds(Guard::EffectInTransaction) {
            attempt.effect = Some(life);
        }
    }
    if matches!(world.attempts[id].stage, Stage::Settling(_)) {
        world.attempts[id].transaction = if committed { Transaction::Committed } else { Transaction::Refused };
    }
}

/// Ends the transaction, committed or not, and releases the lock.
pub(crate) fn end(world: &mut World, id: AttemptId) {
    world.attempts[id].transaction = Transaction::None;
    world.attempts[id].saw = None;
    if world.lock == Some(id) {
        world.lock = None;
    }
}

/// Ends the transaction of a client that has gone; when the database restarts, of every client.
pub(crate) fn reap(scenario: &Scenario, world: &mut World, id: AttemptId) {
    let lock = world.lock;
    end(world, id);
    if !scenario.holds(Guard::LockEndsWithTransaction) {
        world.lock = lock;
    }
}

/// Drops the answer to a COMMIT whose client is gone.
pub(crate) fn lose_answer(world: &mut World, id: AttemptId) {
    let transaction = &mut world.attempts[id].transaction;
    if !transaction.is_running() {
        *transaction = Transaction::None;
    }
}

fn begin(scenario: &Scenario, world: &mut World, id: AttemptId) {
    let life = world.life();
    world.attempts[id].life = Some(life);
    if world.is_away {
        return cannot_begin(scenario, world, id);
    }
    if !pool::admits(scenario, world) {
        world.history.starved |= pool::is_taken_by_one(scenario, world);
        return world.attempts[id].end(Answer::NotRun);
    }
    if world.lock.is_some() && scenario.holds(Guard::BeginTakesLock) {
        return world.attempts[id].end(Answer::InFlight);
    }
    let is_looked_at = world.attempts[id].stage == Stage::Looked;
    let view = if is_looked_at { View::Free } else { record::view(scenario, world, id) };
    if let Some(answer) = refusal(view) {
        return world.attempts[id].end(answer);
    }
    if scenario.holds(Guard::BeginTakesLock) {
        world.lock = Some(id);
    }
    let asks = view == View::LeaseEnded && scenario.servers[id].on_lease_ended == Policy::Reconcile;
    let attempt = &mut world.attempts[id];
    attempt.saw = world.record.as_ref().map(|record| (record.owner, record.takeovers));
    attempt.transaction = Transaction::Open;
    attempt.stage = if asks { Stage::Reconciling(None) } else { Stage::Handling };
}

/// The database cannot be reached. Without a transaction the handler does not run, whatever the policy is.
fn cannot_begin(scenario: &Scenario, world: &mut World, id: AttemptId) {
    let attempt = &mut world.attempts[id];
    if scenario.holds(Guard::TransactionsDoNotProceed) {
        return attempt.end(Answer::NotRun);
    }
    attempt.effect = attempt.life;
    attempt.end(Answer::Own(Outcome::Response(id)));
}

fn roll_back(world: &mut World, id: AttemptId, answer: Answer) {
    end(world, id);
    world.attempts[id].end(answer);
}

/// The answer to a duplicate; `None` if the handler runs.
fn refusal(view: View) -> Option<Answer> {
    match view {
        View::Completed(outcome) => Some(Answer::Replayed(outcome)),
        View::Free | View::LeaseEnded | View::Mine => None,
        View::InFlight => Some(Answer::InFlight),
        View::OutcomeUnknown => Some(Answer::OutcomeUnknown),
    }
}

fn reconcile(world: &mut World, id: AttemptId, word: Word) {
    match (word, world.effect()) {
        (Word::Truth, Some(executed)) => {
            world.attempts[id].stage = Stage::Settling(Disposition::Complete(Outcome::Response(executed)));
        }
        (Word::Truth, None) => world.attempts[id].stage = Stage::Handling,
        (Word::Unknown, _) => roll_back(world, id, Answer::OutcomeUnknown),
    }
}

fn send_commit(scenario: &Scenario, world: &mut World, id: AttemptId) {
    let Stage::Settling(Disposition::Complete(outcome)) = world.attempts[id].stage else {
        return;
    };
    let is_open = world.attempts[id].transaction == Transaction::Open;
    if is_open && world.attempts[id].in_conflict && matches!(outcome, Outcome::Response(_)) {
        // PostgreSQL answers the COMMIT with ROLLBACK.
        roll_back(world, id, Answer::RolledBack);
    } else if is_open {
        world.attempts[id].transaction = Transaction::Committing(outcome);
    } else {
        doubt(scenario, world, id);
    }
}

/// Inserts the record under the unique constraint; `false` if another call's record is there.
fn insert(scenario: &Scenario, world: &mut World, id: AttemptId, outcome: Outcome) -> bool {
    let free = match record::view(scenario, world, id) {
        View::Free => true,
        View::LeaseEnded => saw_it(world, id) || !scenario.holds(Guard::CommitTakesOverWhatItSaw),
        View::InFlight | View::OutcomeUnknown => !scenario.holds(Guard::CommitSparesReservations),
        View::Completed(_) | View::Mine => false,
    };
    if free {
        record::note_rerun(scenario, world, id);
        let completed = Record::reserved(world.attempts[id].token, id);
        world.record = Some(Record { lease_runs: false, outcome: Some(outcome), ..completed });
        world.life_mut().recorded = Some(outcome);
    }
    free
}

/// Whether the reservation is still the one that the attempt saw when it began, so that its decision still holds.
fn saw_it(world: &World, id: AttemptId) -> bool {
    let reservation = world.record.as_ref().map(|record| (record.owner, record.takeovers));
    reservation.is_some() && reservation == world.attempts[id].saw
}

fn hear(scenario: &Scenario, world: &mut World, id: AttemptId) {
    let transaction = world.attempts[id].transaction;
    lose_answer(world, id);
    let answer = match (transaction, world.attempts[id].stage) {
        (Transaction::Committed, Stage::Settling(Disposition::Complete(outcome))) => {
            if outcome.by() == id {
                Answer::Own(outcome)
            } else {
                Answer::Reconciled(outcome)
            }
        }
        _ => {
            world.attempts[id].life = Some(world.life());
            refusal(record::view(scenario, world, id)).unwrap_or(Answer::Unavailable)
        }
    };
    world.attempts[id].end(answer);
}

/// The connection is lost. If COMMIT was not sent, nothing was committed.
fn doubt(scenario: &Scenario, world: &mut World, id: AttemptId) {
    match world.attempts[id].stage {
        Stage::Settling(Disposition::Complete(_)) if !scenario.holds(Guard::LostCommitIsNotRolledBack) => {
            world.attempts[id].end(Answer::RolledBack);
        }
        Stage::Settling(Disposition::Complete(outcome)) if !scenario.holds(Guard::LostCommitIsNotCommitted) => {
            world.attempts[id].end(Answer::Own(outcome));
        }
        Stage::Settling(Disposition::Complete(outcome)) => world.attempts[id].stage = Stage::LookingUp(outcome, None),
        _ => world.attempts[id].end(Answer::Unavailable),
    }
}

fn look_up(scenario: &Scenario, world: &mut World, id: AttemptId) {
    let Stage::LookingUp(outcome, peeked) = world.attempts[id].stage else {
        return;
    };
    let committed = peeked.unwrap_or_else(|| sees_its_record(scenario, world, id));
    world.attempts[id].end(if committed { Answer::FoundCommitted(outcome) } else { Answer::RolledBack });
}

fn sees_its_record(scenario: &Scenario, world: &World, id: AttemptId) -> bool {
    let ours = |record: &Record| record.token == world.attempts[id].token || !scenario.holds(Guard::LookUpChecksToken);
    world.record.as_ref().is_some_and(|record| record.outcome.is_some() && ours(record))
}
