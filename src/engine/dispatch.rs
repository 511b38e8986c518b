//! The entry of the engine: runs a call in a task of its own, and waits if another call holds its key.

use std::{sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, Either};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep_until, timeout_at},
};
use tracing::Instrument as _;

use crate::{
    engine::{
        RunOutcome,
        answer::Answer,
        call::ProtectedCall,
        handler::Handler,
        limits::admission::CountedCall,
        replay,
        replays::recorded::Recorded,
        run,
        shared::{
            pace::Pace,
            single_flight::{Leader, Role},
            state::Engine,
        },
    },
    policy::InProgressPolicy,
    rejection::Rejection,
};

/// The longest pause between two looks at a key that another process holds.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Runs a call in a task that outlives the caller: a client may disconnect at any moment, and then tonic drops this future
/// at its current `.await`. A replay from memory needs no task. If the procedure's policy is to wait for the call that
/// holds the key, waits outside of the task and without a connection. The call counts as in flight while a task runs it,
/// and as waiting while it waits.
///
/// Returns `None` if the task panicked.
pub(crate) async fn dispatch<A: Answer>(
    engine: Arc<Engine>,
    call: Arc<ProtectedCall>,
    handler: Handler<A>,
    timeout: Option<Duration>,
    mut admitted: CountedCall,
) -> Option<A> {
    if !engine.tracker.shutting_down().is_cancelled()
        && let Some(given) = from_memory(&engine, &call)
    {
        return Some(match given {
            Either::Left(answer) => answer,
            Either::Right(asked) => asked.await,
        });
    }
    if call.procedure.policies().on_in_progress == InProgressPolicy::Abort {
        let Some(task) = spawn(&engine, Arc::clone(&call), handler, None, admitted) else {
            return Some(A::reject(&call, Rejection::ShuttingDown));
        };
        return task.await.ok().map(|(attempt, _)| match attempt {
            RunOutcome::Answered(answer) => answer,
            RunOutcome::InFlight(call, _) => A::reject(&call, Rejection::in_progress()),
        });
    }
    let max_wait = call.procedure.policies().max_wait;
    let deadline = Instant::now() + timeout.map_or(max_wait, |timeout| timeout.min(max_wait));
    loop {
        let leader = match engine.single_flight.join(&call) {
            Role::Leader(leader) => return lead(&engine, call, handler, leader, deadline, admitted).await,
            Role::Follower(leader) => leader,
        };
        if let Err(limit) = admitted.wait() {
            return Some(A::exceeds(&call, limit));
        }
        let shutting_down = engine.tracker.shutting_down();
        match shutting_down.run_until_cancelled(Box::pin(timeout_at(deadline, leader.wait()))).await {
            Some(Ok(Some(recorded))) => {
                return Some(match replay::give(&engine, &call, Recorded::clone(recorded)) {
                    Either::Left(answer) => answer,
                    Either::Right(asked) => asked.await,
                });
            }
            // The leader failed, and the key is free: one of its followers leads now.
            Some(Ok(None)) => {}
            Some(Err(_)) => return Some(A::reject(&call, Rejection::in_progress())),
            None => return Some(A::reject(&call, Rejection::ShuttingDown)),
        }
    }
}

/// Answers a call from the replay cache. Not async, because the future of each call would hold a place for the record.
fn from_memory<'a, A: Answer>(engine: &'a Engine, call: &'a ProtectedCall) -> Option<Either<A, BoxFuture<'a, A>>> {
    let recorded = engine.replay_cache.get(call)?;
    call.procedure.telemetry().cache_hit();
    Some(replay::give(engine, call, recorded))
}

/// Runs the leader: a call that identical calls of this process wait for. If another process holds the key, claims it
/// again and again until that call has ended.
async fn lead<A: Answer>(
    engine: &Arc<Engine>,
    mut call: Arc<ProtectedCall>,
    mut handler: Handler<A>,
    leader: Arc<Leader>,
    deadline: Instant,
    mut admitted: CountedCall,
) -> Option<A> {
    let pace = Pace::new(LONGEST_PAUSE);
    loop {
        // While a limit keeps a call that has waited from running, it goes on waiting.
        let beyond = admitted.run().err();
        if beyond.is_none() {
            let Some(task) = spawn(engine, Arc::clone(&call), handler, Some(Arc::clone(&leader)), admitted) else {
                return Some(A::reject(&call, Rejection::ShuttingDown));
            };
            (call, handler, admitted) = match task.await.ok()? {
                (RunOutcome::Answered(answer), _) => return Some(answer),
                (RunOutcome::InFlight(call, handler), admitted) => (call, handler, admitted),
            };
            // A late attempt of this claim may have taken the key over, and was released. Its token is on a row without a lease then.
            call = call.with_a_new_token();
            if let Err(limit) = admitted.wait() {
                return Some(A::exceeds(&call, limit));
            }
        }
        let next = pace.next();
        if next > deadline {
            return Some(
                beyond.map_or_else(|| A::reject(&call, Rejection::in_progress()), |limit| A::exceeds(&call, limit)),
            );
        }
        if engine.tracker.shutting_down().run_until_cancelled(Box::pin(sleep_until(next))).await.is_none() {
            return Some(A::reject(&call, Rejection::ShuttingDown));
        }
    }
}

/// A task that makes one attempt. It gives the admission back for a call that waits next.
type Task<A> = JoinHandle<(RunOutcome<A>, CountedCall)>;

/// Makes one attempt in a task of its own, which is dropped with its runtime; `None` during a shutdown, which would not
/// wait for the task. Not async, because its future would hold a place for each argument while the task runs.
fn spawn<A: Answer>(
    engine: &Arc<Engine>,
    call: Arc<ProtectedCall>,
    handler: Handler<A>,
    leader: Option<Arc<Leader>>,
    admitted: CountedCall,
) -> Option<Task<A>> {
    // Created before `shutting_down` is checked: a shutdown either waits for this task or is noticed here.
    let _token = engine.tracker.tasks().token();
    if engine.tracker.shutting_down().is_cancelled() {
        return None;
    }
    let shared = Arc::clone(engine);
    let attempt = async move { (run(&shared, call, handler, leader.as_deref()).await, admitted) };
    Some(engine.tracker.tasks().spawn(attempt.in_current_span()))
}
