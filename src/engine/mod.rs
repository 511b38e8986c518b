//! The protocol: claim → handler → settle.
//!
//! A call enters at [`dispatch`], which runs [`run`] in a task that outlives the caller. [`run`] is the whole protocol; each
//! of its steps is a module of its own.
//!
//! | rooms, each of which imports only those below it | hold |
//! |---|---|
//! | `dispatch` | the entry: the task, the replay cache, waiting for a call that holds the key |
//! | `degrade`, `reconcile`, `look_again`, `overrun`, `without_key` | the ways of a call that put several steps together |
//! | `claim`, `execute`, `record`, `replay`, `rerun` | the steps: the key, the handler, the outcome, or the answer without a handler; the wait for a further attempt |
//! | `seal` | the keys of a call; sealing its outcome, and opening a record |
//! | `shared` | the state that all calls share: calls in flight, single flight, shutdown |
//! | `limits`, `replays`, `store_rejection` | limits of calls and outcomes, replays in memory, the rejection for an error of the store |
//! | `answer`, `attempts`, `call`, `handler`, `held_key`, `time` | data; `answer` is what a front of the engine, such as the gRPC layer, answers with |

pub(crate) mod answer;
pub(crate) mod attempts;
pub(crate) mod call;
pub(crate) mod claim;
pub(crate) mod degrade;
pub(crate) mod dispatch;
pub(crate) mod handler;
pub(crate) mod held_key;
pub(crate) mod limits;
pub(crate) mod reconcile;
pub(crate) mod record;
pub(crate) mod replay;
pub(crate) mod replays;
pub(crate) mod seal;
pub(crate) mod shared;
pub(crate) mod store_rejection;
pub(crate) mod time;
pub(crate) mod without_key;

mod execute;
mod look_again;
mod overrun;
mod rerun;

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};

use self::{
    answer::Answer,
    call::ProtectedCall,
    claim::claim,
    execute::{execute, heartbeat::renew_late},
    handler::Handler,
    held_key::{ClaimAnswer, HeldKey},
    look_again::look_again,
    overrun::overrun,
    reconcile::Verdict,
    record::{
        disposition::Disposition,
        settle::{Settled, settle},
    },
    shared::{shutdown::Stage, single_flight::Leader, state::Engine, tracker::TrackedCall},
    store_rejection::lost,
    time::key_age,
};
use crate::{
    pause::{Pauses, shortened},
    policy::Mode,
    rejection::Rejection,
    store::{ClaimOutcome, ExtendOutcome, StoreError},
    telemetry::{self, HeldKeyCount, Step},
};

/// The pauses before a call begins anew.
const BEFORE_ANEW: Pauses = Pauses::new(Duration::from_millis(5), Duration::from_secs(1));

/// The outcome of a call that was run.
enum RunOutcome<A> {
    Answered(A),
    /// Another call holds the key, and this one waits for it. The handler has not run.
    InFlight(Arc<ProtectedCall>, Handler<A>),
}

/// The outcome of an attempt at a call.
enum AttemptOutcome<A> {
    Answered(A),
    /// The key was given back, to be claimed with a new token. The handler has not run.
    Anew(Handler<A>),
    /// As [`RunOutcome::InFlight`].
    InFlight(Handler<A>),
    /// The transaction has lost, and is rolled back. Its handler had to end at this time.
    Lost {
        ends: Instant,
        error: Option<StoreError>,
    },
}

/// Runs a call: again, with a new claim, if its transaction has lost.
async fn run<A: Answer>(
    engine: &Engine,
    mut call: Arc<ProtectedCall>,
    mut handler: Handler<A>,
    leader: Option<&Leader>,
) -> RunOutcome<A> {
    let (tracked, mut given_back) = (engine.tracker.claiming(&call), 0);
    if engine.sealer.is_some() {
        call = match Box::pin(seal::with_keys(engine, &call)).await {
            Ok(call) => call,
            Err(rejection) => return RunOutcome::Answered(A::reject(&call, rejection)),
        };
    }
    loop {
        // Before the handler uses its request up, and before anything is put into it.
        let is_transactional = call.procedure.policies().mode == Mode::Transactional;
        let again = is_transactional.then(|| handler.repeated()).flatten();
        let (ends, error) = match attempt(engine, &call, handler, leader, &tracked).await {
            AttemptOutcome::Answered(answer) => return RunOutcome::Answered(answer),
            AttemptOutcome::InFlight(handler) => return RunOutcome::InFlight(call, handler),
            AttemptOutcome::Lost { ends, error } => (ends, error),
            AttemptOutcome::Anew(unused) => {
                // Two calls that have found each other's claims must not go on in step.
                Box::pin(sleep(shortened(BEFORE_ANEW.after(given_back)))).await;
                (call, handler, given_back) = (call.with_a_new_token(), unused, given_back + 1);
                continue;
            }
        };
        tracked.set_stage(Stage::Claiming);
        let Some(again) = again else { return RunOutcome::Answered(A::reject(&call, lost(&call.procedure, error))) };
        let Some(attempts) = Box::pin(rerun::wait(engine, call.attempts, ends, call.disconnected.as_ref())).await
        else {
            return RunOutcome::Answered(A::reject(&call, lost(&call.procedure, error)));
        };
        call.procedure.telemetry().rerun();
        (call, handler) = (call.after(attempts), again);
    }
}

/// Runs the handler, unless the record of the key shows that it has run before.
///
/// Runs in a task of its own: if it were dropped in the middle, the key would stay reserved until the lease ends. Steps that
/// do not run beside the handler are boxed, so that they take no memory while it runs.
async fn attempt<A: Answer>(
    engine: &Engine,
    call: &Arc<ProtectedCall>,
    handler: Handler<A>,
    leader: Option<&Leader>,
    tracked: &TrackedCall,
) -> AttemptOutcome<A> {
    let policies = call.procedure.policies();
    if policies.mode == Mode::Reserved
        && let Err(exceeded) = engine.backlog.check(Some(call.reservation.owner))
    {
        return AttemptOutcome::Answered(A::exceeds(call, exceeded));
    }
    telemetry::step(Step::BeforeClaim);
    let claimed = Instant::now();
    let (mut key, handler) = match acquire(engine, call, handler, leader, tracked).await {
        Ok(acquired) => acquired,
        Err(outcome) => return outcome,
    };
    if let Some(rejection) = key_age::rejection(&call.procedure, call.reservation.key, engine.clock.now()) {
        Box::pin(record::let_go(engine, call, key, Disposition::Release)).await;
        return AttemptOutcome::Answered(A::reject(call, rejection));
    }
    if key.has_ended() {
        match Box::pin(renew_late(&*engine.store, call, &mut key)).await {
            Ok(ExtendOutcome::Extended) => {}
            Ok(ExtendOutcome::NotHeld) if leader.is_some() => return AttemptOutcome::InFlight(handler),
            Ok(ExtendOutcome::NotHeld) => return AttemptOutcome::Answered(A::reject(call, Rejection::in_progress())),
            Err(error) => {
                record::free(engine, call, key);
                return AttemptOutcome::Answered(store_rejection::reject(&call.procedure, &error));
            }
        }
    }
    telemetry::step(Step::AfterClaim);
    if call.attempts.reruns() == 0 {
        call.procedure.telemetry().first();
    }
    let _count = HeldKeyCount::new(matches!(key, HeldKey::Transaction(_)));
    tracked.set_stage(Stage::Handler);
    let ends = call.attempts.ends(policies.handler_timeout);
    let (key, ended) = execute(engine, call, key, handler, ends).await;
    tracked.set_stage(Stage::Recording);
    telemetry::step(Step::BeforeSettle);
    let settled = async {
        let outcome = match ended {
            Ok(outcome) => outcome,
            Err(late) => return AttemptOutcome::Answered(Box::pin(overrun(engine, call, Some(key), late)).await),
        };
        match settle(engine, call, key, claimed, outcome, leader).await {
            Settled::Answered(response) => AttemptOutcome::Answered(response),
            Settled::Lost(error) => AttemptOutcome::Lost { ends, error },
            Settled::Superseded => AttemptOutcome::Answered(Box::pin(look_again(engine, call)).await),
        }
    };
    let settled = Box::pin(settled).await;
    telemetry::step(Step::AfterSettle);
    settled
}

/// Claims the key. Ends the attempt if another call has it or had it, or if the store cannot say.
async fn acquire<A: Answer>(
    engine: &Engine,
    call: &Arc<ProtectedCall>,
    handler: Handler<A>,
    leader: Option<&Leader>,
    tracked: &TrackedCall,
) -> Result<(HeldKey, Handler<A>), AttemptOutcome<A>> {
    Err(AttemptOutcome::Answered(match claim(engine, call).await {
        Ok(ClaimAnswer::Acquired(key)) => return Ok((key, handler)),
        Ok(ClaimAnswer::TakenOver(key)) => match Box::pin(reconcile::reconcile(engine, call, key)).await {
            Verdict::NotExecuted(key) => return Ok((key, handler)),
            Verdict::NotRecorded => A::reject(call, Rejection::StoreUnavailable),
            Verdict::Recorded => Box::pin(look_again(engine, call)).await,
            Verdict::Unknown => A::reject(call, Rejection::OutcomeUnknown),
        },
        Ok(ClaimAnswer::NotAcquired { outcome: ClaimOutcome::InFlight { .. }, .. }) if leader.is_some() => {
            return Err(AttemptOutcome::InFlight(handler));
        }
        Ok(ClaimAnswer::GivenBack) => return Err(AttemptOutcome::Anew(handler)),
        Ok(ClaimAnswer::Unknown(rejection)) => A::reject(call, rejection),
        Ok(ClaimAnswer::NotAcquired { outcome, asked }) => replay::answer(engine, call, outcome, asked, leader).await,
        Err(error) => Box::pin(degrade::degrade(engine, call, &error, handler, tracked, leader)).await,
    }))
}
