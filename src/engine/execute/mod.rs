//! Runs a handler while its key is held.

pub(super) mod heartbeat;

use std::{future, panic::AssertUnwindSafe, pin::pin, sync::Arc, time::Instant};

use futures_util::{
    FutureExt as _,
    future::{Either, select},
};
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
    telemetry::{self, TimedStep},
};

/// The way in which a handler ended.
pub(super) struct Outcome<A> {
    pub(super) answer: A,
    pub(super) say: Say,
}

/// Runs the handler with the tools in its extensions that its mode needs, and keeps the key until it has ended.
pub(super) async fn execute<A: Answer>(
    engine: &Engine,
    call: &Arc<ProtectedCall>,
    key: HeldKey,
    mut handler: Handler<A>,
) -> (HeldKey, Outcome<A>) {
    let pool = matches!(key, HeldKey::Transaction(_)).then_some(engine.transaction_pool);
    let execution = execution(call, pool);
    handler.extensions_mut().insert(execution.clone());
    let (key, answer) = match key {
        HeldKey::Reservation(mut lease) => {
            let answer = run_renewed(engine, call, &mut lease, &execution, handler).await;
            (HeldKey::Reservation(lease), answer)
        }
        HeldKey::Transaction(transaction) => {
            transaction.hand_out(handler.extensions_mut());
            let handler = handle(Arc::clone(&call.procedure), span(engine, call), &execution, handler);
            let answer = match &call.disconnected {
                None => handler.await,
                Some(disconnected) => {
                    let answer = disconnected.run_until_cancelled(handler).await;
                    // The client may have gone in the moment in which the handler ended.
                    answer.filter(|_| !disconnected.is_cancelled()).unwrap_or_else(|| {
                        call.procedure.telemetry().disconnected();
                        execution.no_answer();
                        A::failed(Failure::Disconnected)
                    })
                }
            };
            if let Some(times) = transaction.times() {
                call.procedure.telemetry().transaction_used(times.idle, times.working);
            }
            (HeldKey::Transaction(transaction), answer)
        }
    };
    (key, Outcome { answer, say: execution.say() })
}

/// Runs the handler of a call that is not known to hold its key. If its claim may stand, renews its lease meanwhile.
pub(super) async fn execute_unprotected<A: Answer>(
    engine: &Engine,
    call: &Arc<ProtectedCall>,
    lease: Option<&mut Lease>,
    mut handler: Handler<A>,
) -> Outcome<A> {
    let execution = execution(call, None);
    handler.extensions_mut().insert(execution.clone());
    let answer = match lease {
        Some(lease) => run_renewed(engine, call, lease, &execution, handler).await,
        None => handle(Arc::clone(&call.procedure), span(engine, call), &execution, handler).await,
    };
    Outcome { answer, say: execution.say() }
}

/// Runs the handler in a task of its own, and renews the lease in this one: the handler may block its thread for longer than
/// the lease.
async fn run_renewed<A: Answer>(
    engine: &Engine,
    call: &Arc<ProtectedCall>,
    lease: &mut Lease,
    execution: &Execution,
    handler: Handler<A>,
) -> A {
    let handler = tokio::spawn(handle(Arc::clone(&call.procedure), span(engine, call), execution, handler));
    match select(handler, pin!(heartbeat(&*engine.store, call, lease, execution))).await {
        Either::Left((Ok(answer), _)) => answer,
        // The runtime shuts down, and drops this task as well. Nothing is known of the effect.
        Either::Left((Err(_), _)) => future::pending().await,
        Either::Right((never, _)) => match never {},
    }
}

/// The execution of a handler that has a transaction of this pool, or none.
fn execution(call: &ProtectedCall, pool: Option<u32>) -> Execution {
    let nesting = call.nesting.of_handler(pool);
    Execution::new(call.deadline, call.caller.as_ref(), call.reservation.key, nesting)
}

/// Returns the span of the handler, or the current span if that one is disabled.
fn span(engine: &Engine, call: &ProtectedCall) -> Span {
    engine.spans.execute(call.procedure.path(), call.reservation.key.as_uuid()).or_current()
}

/// Runs the handler, and answers a panic. Whatever the panic left half changed is not used again. Not async,
/// because its future would hold a place for each argument.
fn handle<A: Answer>(
    procedure: Arc<Procedure>,
    span: Span,
    execution: &Execution,
    handler: Handler<A>,
) -> impl Future<Output = A> + Send + 'static {
    let (began, execution) = (Instant::now(), execution.clone());
    let nesting = execution.nesting();
    let run = AssertUnwindSafe(nesting.around(async move { handler.run().await })).catch_unwind();
    let ended = run.map(move |ended| {
        procedure.telemetry().took(TimedStep::Handler, began);
        match &ended {
            Ok(answer) => telemetry::executed(&answer.name()),
            Err(_panic) => telemetry::executed(&"panicked"),
        }
        ended.unwrap_or_else(|_panic| {
            procedure.telemetry().panicked();
            execution.no_answer();
            A::failed(Failure::Panicked)
        })
    });
    ended.instrument(span)
}
