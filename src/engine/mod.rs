//! The protocol: claim → handler → settle.
//!
//! A call enters at [`dispatch`], which runs [`run`] in a task that outlives the caller. [`run`] is the whole protocol; each
//! of its steps is a module of its own.
//!
//! | rooms, each of which imports only those below it | hold |
//! |---|---|
//! | `dispatch` | the entry: the task, the replay cache, waiting for a call that holds the key |
//! | `degrade`, `reconcile`, `look_again`, `without_key` | the ways of a call that put several steps together |
//! | `claim`, `execute`, `record`, `replay` | the steps: the key, the handler, the outcome, or the answer without a handler |
//! | `shared` | the state that all calls share: calls in flight, single flight, shutdown |
//! | `limits`, `replays`, `store_rejection` | limits of calls and outcomes, replays in memory, the rejection for an error of the store |
//! | `answer`, `call`, `handler`, `held_key`, `time` | data; `answer` is what a front of the engine, such as the gRPC layer, answers with |

pub(crate) mod answer;
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
pub(crate) mod shared;
pub(crate) mod store_rejection;
pub(crate) mod time;
pub(crate) mod without_key;

mod execute;
mod look_again;

use std::sync::Arc;

use tokio::time::Instant;

use self::{
    answer::Answer,
    call::ProtectedCall,
    claim::claim,
    execute::{execute, heartbeat::renew_late},
    handler::Handler,
    held_key::{ClaimAnswer, HeldKey},
    look_again::look_again,
    reconcile::Verdict,
    record::{
        disposition::Disposition,
        settle::{Settled, settle},
    },
    shared::{shutdown::Stage, single_flight::Leader, state::Engine},
    time::key_age,
};
use crate::{
    policy::Mode,
    rejection::Rejection,
    store::{ClaimOutcome, ExtendOutcome},
    telemetry::{self, HeldKeyCount, Step},
};

/// The outcome of an attempt to run a call.
enum RunOutcome<A> {
    Answered(A),
    /// Another call holds the key, and this one waits for it. The handler has not run.
    InFlight(Arc<ProtectedCall>, Handler<A>),
}

/// Runs the handler, unless the record of the key shows that it has run before.
///
/// Runs in a task of its own: if it were dropped in the middle, the key would stay reserved until the lease ends. Steps that
/// do not run beside the handler are boxed, so that they take no memory while it runs.
async fn run<A: Answer>(
    engine: &Engine,
    call: Arc<ProtectedCall>,
    handler: Handler<A>,
    leader: Option<&Leader>,
) -> RunOutcome<A> {
    if call.procedure.policies().mode == Mode::Reserved
        && let Err(exceeded) = engine.backlog.check(Some(call.reservation.owner))
    {
        return RunOutcome::Answered(A::exceeds(&call, exceeded));
    }
    telemetry::step(Step::BeforeClaim);
    let tracked = engine.tracker.claiming(&call);
    let claimed = Instant::now();
    let mut key = match claim(engine, &call).await {
        Ok(ClaimAnswer::Acquired(key)) => key,
        Ok(ClaimAnswer::TakenOver(key)) => match Box::pin(reconcile::reconcile(engine, &call, key)).await {
            Verdict::NotExecuted(key) => key,
            Verdict::NotRecorded => return RunOutcome::Answered(A::reject(&call, Rejection::StoreUnavailable)),
            Verdict::Recorded => return RunOutcome::Answered(Box::pin(look_again(engine, &call)).await),
            Verdict::Unknown => return RunOutcome::Answered(A::reject(&call, Rejection::OutcomeUnknown)),
        },
        Ok(ClaimAnswer::NotAcquired { outcome: ClaimOutcome::InFlight { .. }, .. }) if leader.is_some() => {
            return RunOutcome::InFlight(call, handler);
        }
        Ok(ClaimAnswer::NotAcquired { outcome, asked }) => {
            return RunOutcome::Answered(replay::answer(engine, &call, outcome, asked, leader).await);
        }
        Err(error) => {
            return RunOutcome::Answered(
                Box::pin(degrade::degrade(engine, call, &error, handler, &tracked, leader)).await,
            );
        }
    };
    if let Some(rejection) = key_age::rejection(&call.procedure, call.reservation.key, engine.clock.now()) {
        Box::pin(record::let_go(engine, &call, key, Disposition::Release)).await;
        return RunOutcome::Answered(A::reject(&call, rejection));
    }
    if key.has_ended() {
        match Box::pin(renew_late(&*engine.store, &call, &mut key)).await {
            Ok(ExtendOutcome::Extended) => {}
            Ok(ExtendOutcome::NotHeld) if leader.is_some() => return RunOutcome::InFlight(call, handler),
            Ok(ExtendOutcome::NotHeld) => return RunOutcome::Answered(A::reject(&call, Rejection::in_progress())),
            Err(error) => {
                record::free(engine, &call, key);
                return RunOutcome::Answered(store_rejection::reject(&call.procedure, &error));
            }
        }
    }
    telemetry::step(Step::AfterClaim);
    call.procedure.telemetry().first();
    let _count = HeldKeyCount::new(matches!(key, HeldKey::Transaction(_)));
    tracked.set_stage(Stage::Handler);
    let (key, outcome) = execute(engine, &call, key, handler).await;
    tracked.set_stage(Stage::Recording);
    telemetry::step(Step::BeforeSettle);
    let settled = async {
        match settle(engine, &call, key, claimed, outcome, leader).await {
            Settled::Answered(response) => response,
            Settled::Superseded => Box::pin(look_again(engine, &call)).await,
        }
    };
    let response = Box::pin(settled).await;
    telemetry::step(Step::AfterSettle);
    RunOutcome::Answered(response)
}
