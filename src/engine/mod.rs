//! The protocol: claim → handler → settle.
//!
//! A call enters at [`dispatch`], which runs [`run`] in a task that outlives the caller. [`run`] is the whole protocol; each
//! of its steps is a module of its own.
//!
//! | module | holds |
//! |---|---|
//! | `admission`, `counter` | the limits of the calls in flight and of those that wait |
//! | `dispatch` | the entry: the task, the replay cache, waiting for a call that holds the key |
//! | `claim`, `replay` | the claim of the key, and the answer to a call whose handler does not run |
//! | `key_age` | the refusal of calls whose keys have expired |
//! | `replay_hooks` | the application's authorizers and rebuilders, which are asked before a replay |
//! | `reconcile`, `reconcilers` | the search for the outcome of an earlier call that recorded none |
//! | `execute`, `heartbeat`, `handler` | the handler, while its key is held |
//! | `settle`, `disposition`, `record` | the outcome, the decision on the key, and its recording |
//! | `backlog`, `backoff` | the outcomes that wait to be recorded, and the pauses between attempts |
//! | `pace` | the pauses between questions for the end of a call of another process |
//! | `refusal` | the refusal of a call because of an error of the store |
//! | `degrade`, `without_key` | calls that cannot be protected, and calls without a key to a transactional procedure |
//! | `state` | the state that all calls share: `replay_cache`, `single_flight`, `tracker` |
//! | `watchers` | `WaitOperation` requests, which wait for the end of a call |
//! | `call`, `recorded`, `held_key`, `clock_reading`, `expiry`, `wall_clock`, `shutdown` | data |

pub(crate) mod admission;
pub(crate) mod backlog;
pub(crate) mod backoff;
pub(crate) mod call;
pub(crate) mod claim;
pub(crate) mod dispatch;
pub(crate) mod disposition;
pub(crate) mod handler;
pub(crate) mod held_key;
pub(crate) mod pace;
pub(crate) mod reconcile;
pub(crate) mod reconcilers;
pub(crate) mod record;
pub(crate) mod refusal;
pub(crate) mod replay;
pub(crate) mod replay_cache;
pub(crate) mod replay_hooks;
pub(crate) mod shutdown;
pub(crate) mod single_flight;
pub(crate) mod state;
pub(crate) mod tracker;
pub(crate) mod wall_clock;
pub(crate) mod watchers;
pub(crate) mod without_key;

mod clock_reading;
mod counter;
mod degrade;
mod execute;
mod expiry;
mod heartbeat;
mod key_age;
mod recorded;
mod settle;

use std::sync::Arc;

use tokio::time::Instant;

use self::{
    call::Call,
    claim::claim,
    disposition::Disposition,
    handler::Handler,
    held_key::{Claimed, HeldKey},
    reconcile::Verdict,
    shutdown::Stage,
    single_flight::Leader,
    state::Engine,
};
use crate::{
    grpc::UnaryResponse,
    policy::Mode,
    rejection::Rejection,
    store::{ClaimOutcome, ExtendOutcome},
    telemetry::{self, Holds, Step},
};

/// The outcome of an attempt to run a call.
#[expect(clippy::large_enum_variant, reason = "almost all attempts are answered")]
enum Attempt<E> {
    Answered(Result<UnaryResponse, E>),
    /// Another call holds the key, and this one waits for it. The handler has not run.
    InFlight(Arc<Call>, Handler<E>),
}

/// Runs the handler, unless the record of the key shows that it has run before.
///
/// Runs in a task of its own: if it were dropped in the middle, the key would stay reserved until the lease ends. Steps that
/// do not run beside the handler are boxed, so that they take no memory while it runs.
async fn run<E: Send + 'static>(
    engine: &Engine,
    call: Arc<Call>,
    handler: Handler<E>,
    leader: Option<&Leader>,
) -> Attempt<E> {
    if call.procedure.policies().mode == Mode::Reserved
        && let Err(exceeded) = engine.backlog.check(Some(call.reservation.owner))
    {
        return Attempt::Answered(call.reject(Rejection::Limit(exceeded)));
    }
    telemetry::step(Step::BeforeClaim);
    let tracked = engine.tracker.claiming(&call);
    let claimed = Instant::now();
    let mut key = match claim(engine, &call).await {
        Ok(Claimed::Acquired(key)) => key,
        Ok(Claimed::TakenOver(key)) => match Box::pin(reconcile::reconcile(engine, &call, key)).await {
            Verdict::NotExecuted(key) => key,
            Verdict::NotRecorded => return Attempt::Answered(call.reject(Rejection::StoreUnavailable)),
            Verdict::Recorded => return Attempt::Answered(Box::pin(replay::look_again(engine, &call)).await),
            Verdict::Unknown => return Attempt::Answered(call.reject(Rejection::OutcomeUnknown)),
        },
        Ok(Claimed::Refused { outcome: ClaimOutcome::InFlight { .. }, .. }) if leader.is_some() => {
            return Attempt::InFlight(call, handler);
        }
        Ok(Claimed::Refused { outcome, asked }) => {
            return Attempt::Answered(replay::answer(engine, &call, outcome, asked, leader).await);
        }
        Err(error) => {
            return Attempt::Answered(
                Box::pin(degrade::degrade(engine, call, &error, handler, &tracked, leader)).await,
            );
        }
    };
    if let Some(rejection) = key_age::refusal(&call.procedure, call.reservation.key, engine.clock.now()) {
        Box::pin(record::let_go(engine, &call, key, Disposition::Release)).await;
        return Attempt::Answered(call.reject(rejection));
    }
    if key.has_ended() {
        match Box::pin(heartbeat::renew_late(&*engine.store, &call, &mut key)).await {
            Ok(ExtendOutcome::Extended) => {}
            Ok(ExtendOutcome::NotHeld) if leader.is_some() => return Attempt::InFlight(call, handler),
            Ok(ExtendOutcome::NotHeld) => return Attempt::Answered(call.reject(dispatch::in_progress())),
            Err(error) => {
                record::free(engine, &call, key);
                return Attempt::Answered(refusal::refuse(&call.procedure, &error));
            }
        }
    }
    telemetry::step(Step::AfterClaim);
    call.procedure.telemetry().first();
    let _holds = Holds::new(matches!(key, HeldKey::Transaction(_)));
    tracked.set_stage(Stage::Handler);
    let (key, outcome) = execute::execute(engine, &call, key, handler).await;
    tracked.set_stage(Stage::Recording);
    telemetry::step(Step::BeforeSettle);
    let response = Box::pin(settle::settle(engine, &call, (key, claimed), outcome, leader)).await;
    telemetry::step(Step::AfterSettle);
    Attempt::Answered(response)
}
