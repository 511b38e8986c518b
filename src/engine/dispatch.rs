//! The entry of the engine: runs a call in a task of its own, and waits if another call holds its key.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::Instrument as _;

use super::{
    Attempt,
    call::Call,
    handler::Handler,
    recorded::Recorded,
    run,
    single_flight::{Leader, Role},
    state::Engine,
};
use crate::{grpc::UnaryResponse, policy::InProgressPolicy, rejection::Rejection};

/// The pause before the second look at a key that another process holds, and the longest pause between two looks.
const PAUSES: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(1)];

/// Runs a call in a task that outlives the caller: a client may disconnect at any moment, and then tonic drops this future
/// at its current `.await`. A replay from memory needs no task. If the procedure's policy is to wait for the call that
/// holds the key, waits outside of the task and without a connection.
///
/// Returns `None` if the task panicked.
pub(crate) async fn dispatch<E: Send + 'static>(
    engine: Arc<Engine>,
    call: Arc<Call>,
    handler: Handler<E>,
    timeout: Option<Duration>,
) -> Option<Result<UnaryResponse, E>> {
    if !engine.tracker.shutting_down().is_cancelled()
        && let Some(recorded) = engine.replay_cache.get(&call)
    {
        call.procedure.telemetry().cache_hit();
        return Some(Ok(recorded.replay(&call)));
    }
    if call.procedure.policies().on_in_progress == InProgressPolicy::Abort {
        return spawn(&engine, call, handler, None).await.map(|attempt| match attempt {
            Attempt::Answered(response) => response,
            Attempt::InFlight(call, _) => call.reject(in_progress()),
        });
    }
    let max_wait = call.procedure.policies().max_wait;
    let deadline = Instant::now() + timeout.map_or(max_wait, |timeout| timeout.min(max_wait));
    loop {
        let mut leader = match engine.single_flight.join(&call) {
            Role::Leader(leader) => return lead(&engine, call, handler, leader, deadline).await,
            Role::Follower(leader) => leader,
        };
        let Some(_permit) = engine.single_flight.wait_permit() else { return Some(call.reject(in_progress())) };
        let published = async { leader.wait_for(Option::is_some).await.ok().and_then(|recorded| recorded.clone()) };
        let shutting_down = engine.tracker.shutting_down();
        match shutting_down.run_until_cancelled(Box::pin(timeout_at(deadline, published))).await {
            Some(Ok(Some(recorded))) => return Some(Ok(Recorded::clone(&recorded).replay(&call))),
            // The leader failed, and the key is free: one of its followers leads now.
            Some(Ok(None)) => {}
            Some(Err(_)) => return Some(call.reject(in_progress())),
            None => return Some(call.reject(Rejection::ShuttingDown)),
        }
    }
}

/// Runs the leader: a call that identical calls of this process wait for. If another process holds the key, claims it
/// again and again until that call has ended.
async fn lead<E: Send + 'static>(
    engine: &Arc<Engine>,
    mut call: Arc<Call>,
    mut handler: Handler<E>,
    leader: Arc<Leader>,
    deadline: Instant,
) -> Option<Result<UnaryResponse, E>> {
    let [mut pause, longest] = PAUSES;
    let mut permit = None;
    loop {
        (call, handler) = match spawn(engine, call, handler, Some(Arc::clone(&leader))).await? {
            Attempt::Answered(response) => return Some(response),
            Attempt::InFlight(call, handler) => (call, handler),
        };
        permit = permit.or_else(|| engine.single_flight.wait_permit());
        let next = Instant::now() + pause;
        if permit.is_none() || next > deadline {
            return Some(call.reject(in_progress()));
        }
        if engine.tracker.shutting_down().run_until_cancelled(Box::pin(sleep_until(next))).await.is_none() {
            return Some(call.reject(Rejection::ShuttingDown));
        }
        pause = (pause * 2).min(longest);
    }
}

/// Makes one attempt in a task of its own; `None` if the task panicked or was dropped with its runtime. Does not
/// begin a task during a shutdown, which would not wait for it.
async fn spawn<E: Send + 'static>(
    engine: &Arc<Engine>,
    call: Arc<Call>,
    handler: Handler<E>,
    leader: Option<Arc<Leader>>,
) -> Option<Attempt<E>> {
    // Created before `shutting_down` is checked: a shutdown either waits for this task or is noticed here.
    let token = engine.tracker.tasks().token();
    if engine.tracker.shutting_down().is_cancelled() {
        return Some(Attempt::Answered(call.reject(Rejection::ShuttingDown)));
    }
    let shared = Arc::clone(engine);
    let attempt = async move { run(&shared, call, handler, leader.as_deref()).await };
    let task = engine.tracker.tasks().spawn(attempt.in_current_span());
    drop(token);
    task.await.ok()
}

/// Returns the rejection of a call that does not wait any longer. The lease of the other call is not known here,
/// and does not matter: that call may end at any moment.
fn in_progress() -> Rejection {
    Rejection::InProgress { lease_left: Duration::MAX }
}
