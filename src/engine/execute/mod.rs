//! Runs a handler while its key is held.

pub(super) mod heartbeat;

use std::{fmt, future, panic::AssertUnwindSafe, pin::pin, sync::Arc};

use futures_util::{
    FutureExt as _,
    future::{Either, select},
};
use tokio::time::{Instant, error::Elapsed, timeout_at};
use tracing::{Instrument as _, Span};

use crate::{
    engine::{
        answer::{Answer, Failure},
        call::ProtectedCall,
        execute::heartbeat::heartbeat,
        handler::Handler,
        held_key::{HeldKey, Lease},
        shared::state::Engine,
    },
    execution::{Execution, Say},
    policy::Procedure,
    telemetry::{self, LeftHandlerCount, TimedStep},
};

/// The way in which a handler ended.
pub(super) struct Outcome<A> {
    pub(super) answer: A,
    pub(super) say: Say,
}

/// A handler that had not ended when its time was up, and was dropped, or whose task was left.
pub(super) struct Overrun {
    pub(super) say: Say,
}

/// Runs the handler with the tools in its extensions that its mode needs, and keeps the key until it has ended, or until its time is up.
pub(super) async fn execute<A: Answer>(
    engine: &Engine,
    call: &Arc<ProtectedCall>,
    key: HeldKey,
    mut handler: Handler<A>,
    ends: Instant,
) -> (HeldKey, Result<Outcome<A>, Overrun>) {
    let pool = matches!(key, HeldKey::Transaction(_)).then_some(engine.transaction_pool);
    let execution = execution(call, pool, ends);
    handler.extensions_mut().insert(execution.clone());
    let (key, answer) = match key {
        HeldKey::Reservation(mut lease) => {
            let answer = run_in_task(engine, call, Some(&mut lease), &execution, handler).await;
            (HeldKey::Reservation(lease), answer)
        }
        HeldKey::Transaction(transaction) => {
            transaction.hand_out(handler.extensions_mut());
            let handler = handle(Arc::clone(&call.procedure), span(engine, call), &execution, handler);
            let handler = timeout_at(execution.ends(), handler);
            let answer = match &call.disconnected {
                None => handler.await,
                Some(disconnected) => {
                    let answer = disconnected.run_until_cancelled(handler).await;
                    // The client may have gone in the moment in which the handler ended.
                    answer.filter(|_| !disconnected.is_cancelled()).unwrap_or_else(|| {
                        call.procedure.telemetry().disconnected();
                        execution.no_answer();
                        Ok(A::failed(Failure::Disconnected))
                    })
                }
            };
            if let Some(times) = transaction.times() {
                call.procedure.telemetry().transaction_used(times.idle, times.working);
            }
            (HeldKey::Transaction(transaction), answer)
        }
    };
    let say = execution.say();
    (key, answer.map(|answer| Outcome { answer, say }).map_err(|_| Overrun { say }))
}

/// Runs the handler of a call that is not known to hold its key. If its claim may stand, renews its lease meanwhile.
pub(super) async fn execute_unprotected<A: Answer>(
    engine: &Engine,
    call: &Arc<ProtectedCall>,
    lease: Option<&mut Lease>,
    mut handler: Handler<A>,
    ends: Instant,
) -> Result<Outcome<A>, Overrun> {
    let execution = execution(call, None, ends);
    handler.extensions_mut().insert(execution.clone());
    let answer = run_in_task(engine, call, lease, &execution, handler).await;
    let say = execution.say();
    answer.map(|answer| Outcome { answer, say }).map_err(|_| Overrun { say })
}

/// Runs the handler in a task of its own, and renews the lease in this one: the handler may block its thread for longer than the lease, and
/// beyond its time. When that is up, the task is told, aborted and left, and the lease is renewed no more.
async fn run_in_task<A: Answer>(
    engine: &Engine,
    call: &Arc<ProtectedCall>,
    lease: Option<&mut Lease>,
    execution: &Execution,
    handler: Handler<A>,
) -> Result<A, Elapsed> {
    let mut handler = tokio::spawn(handle(Arc::clone(&call.procedure), span(engine, call), execution, handler));
    let renewal = async {
        match lease {
            Some(lease) => heartbeat(&*engine.store, call, lease, execution).await,
            None => future::pending().await,
        }
    };
    match timeout_at(execution.ends(), select(&mut handler, pin!(renewal))).await {
        Ok(Either::Left((Ok(answer), _))) => Ok(answer),
        // The runtime shuts down, and drops this task as well. Nothing is known of the effect.
        Ok(Either::Left((Err(_), _))) => future::pending().await,
        Ok(Either::Right((never, _))) => match never {},
        Err(elapsed) => {
            execution.lease_lost().cancel();
            handler.abort();
            let left = LeftHandlerCount::new();
            tokio::spawn(handler.map(|_| drop(left)));
            Err(elapsed)
        }
    }
}

/// The execution of a handler that has a transaction of this pool, or none.
fn execution(call: &ProtectedCall, pool: Option<u32>, ends: Instant) -> Execution {
    let nesting = call.nesting.of_handler(pool);
    let origin = call.caller.as_ref().map(|caller| (caller.clone(), call.reservation.key));
    Execution::new(call.deadline, ends, origin, nesting)
}

/// Returns the span of the handler, or the current span if that one is disabled.
fn span(engine: &Engine, call: &ProtectedCall) -> Span {
    let (path, key) = (call.procedure.path(), call.reservation.key.as_uuid());
    engine.spans.execute(path, key, call.attempts.reruns()).or_current()
}

/// Runs the handler, and answers a panic. Whatever the panic left half changed is not used again. Not async,
/// because its future would hold a place for each argument.
fn handle<A: Answer>(
    procedure: Arc<Procedure>,
    span: Span,
    execution: &Execution,
    handler: Handler<A>,
) -> impl Future<Output = A> + Send + 'static {
    let (running, execution) = (RunningHandler::new(procedure), execution.clone());
    let nesting = execution.nesting();
    let run = AssertUnwindSafe(nesting.around(async move { handler.run().await })).catch_unwind();
    let ended = run.map(move |ended| {
        let procedure = match &ended {
            Ok(answer) => running.ended(&answer.name()),
            Err(_panic) => running.ended(&"panicked"),
        };
        ended.unwrap_or_else(|_panic| {
            procedure.telemetry().panicked();
            execution.no_answer();
            A::failed(Failure::Panicked)
        })
    });
    ended.instrument(span)
}

/// A handler that runs, in its span. Dropped before it has ended, its time was up, or its client has gone.
struct RunningHandler {
    procedure: Arc<Procedure>,
    has_ended: bool,
    began: std::time::Instant,
}

impl RunningHandler {
    fn new(procedure: Arc<Procedure>) -> Self {
        Self { procedure, has_ended: false, began: std::time::Instant::now() }
    }

    /// Notes how it has ended. Returns its procedure.
    fn ended(mut self, outcome: &dyn fmt::Display) -> Arc<Procedure> {
        self.has_ended = true;
        self.procedure.telemetry().took(TimedStep::Handler, self.began);
        telemetry::executed(outcome);
        Arc::clone(&self.procedure)
    }
}

impl Drop for RunningHandler {
    fn drop(&mut self) {
        if !self.has_ended {
            self.procedure.telemetry().took(TimedStep::Handler, self.began);
            telemetry::executed(&"dropped");
        }
    }
}
