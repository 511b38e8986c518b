//! Runs a handler while its key is held.

use std::{future, panic::AssertUnwindSafe, pin::pin, sync::Arc, time::Instant};

use futures_util::{
    FutureExt as _,
    future::{Either, select},
};
use tonic::{Code, Status};
use tracing::{Instrument as _, Span};

use crate::{
    engine::{
        call::Call,
        handler::Handler,
        heartbeat::heartbeat,
        held_key::{HeldKey, Lease},
        shared::state::Engine,
    },
    execution::Execution,
    grpc::UnaryResponse,
    policy::Procedure,
    telemetry::{self, TimedStep},
};

/// The way in which a handler ended.
pub(super) struct Outcome<E> {
    pub(super) response: Result<UnaryResponse, E>,
    /// The handler said that its effect has happened, whatever its response says.
    pub(super) effect_committed: bool,
}

/// Runs the handler with the tools in its extensions that its mode needs, and keeps the key until it has ended.
pub(super) async fn execute<E: Send + 'static>(
    engine: &Engine,
    call: &Arc<Call>,
    key: HeldKey,
    mut handler: Handler<E>,
) -> (HeldKey, Outcome<E>) {
    let execution = Execution::new(call.deadline);
    handler.extensions_mut().insert(execution.clone());
    let (key, response) = match key {
        HeldKey::Reservation(mut lease) => {
            let response = run_renewed(engine, call, &mut lease, &execution, handler).await;
            (HeldKey::Reservation(lease), response)
        }
        HeldKey::Transaction(transaction) => {
            transaction.hand_out(handler.extensions_mut());
            let handler = handle(Arc::clone(&call.procedure), span(engine, call), handler);
            let response = match &call.disconnected {
                None => handler.await,
                Some(disconnected) => disconnected.run_until_cancelled(handler).await.unwrap_or_else(|| {
                    call.procedure.telemetry().disconnected();
                    Ok(UnaryResponse::failed(Status::cancelled("the client disconnected")))
                }),
            };
            if let Some(times) = transaction.times() {
                call.procedure.telemetry().transaction_used(times.idle, times.working);
            }
            (HeldKey::Transaction(transaction), response)
        }
    };
    (key, Outcome { response, effect_committed: execution.is_effect_committed() })
}

/// Runs the handler of a call that is not known to hold its key. If its claim may stand, renews its lease meanwhile.
pub(super) async fn execute_unprotected<E: Send + 'static>(
    engine: &Engine,
    call: &Arc<Call>,
    lease: Option<&mut Lease>,
    mut handler: Handler<E>,
) -> Outcome<E> {
    let execution = Execution::new(call.deadline);
    handler.extensions_mut().insert(execution.clone());
    let response = match lease {
        Some(lease) => run_renewed(engine, call, lease, &execution, handler).await,
        None => handle(Arc::clone(&call.procedure), span(engine, call), handler).await,
    };
    Outcome { response, effect_committed: execution.is_effect_committed() }
}

/// Runs the handler in a task of its own, and renews the lease in this one: the handler may block its thread for longer than
/// the lease.
async fn run_renewed<E: Send + 'static>(
    engine: &Engine,
    call: &Arc<Call>,
    lease: &mut Lease,
    execution: &Execution,
    handler: Handler<E>,
) -> Result<UnaryResponse, E> {
    let handler = tokio::spawn(handle(Arc::clone(&call.procedure), span(engine, call), handler));
    match select(handler, pin!(heartbeat(&*engine.store, call, lease, execution))).await {
        Either::Left((Ok(response), _)) => response,
        // The runtime shuts down, and drops this task as well. Nothing is known of the effect.
        Either::Left((Err(_), _)) => future::pending().await,
        Either::Right((never, _)) => match never {},
    }
}

/// Returns the span of the handler, or the current span if that one is disabled.
fn span(engine: &Engine, call: &Call) -> Span {
    engine.spans.execute(call.procedure.path(), call.reservation.key.as_uuid()).or_current()
}

/// Runs the handler, and answers a panic with `INTERNAL`. Whatever the panic left half changed is not used again. Not async,
/// because its future would hold a place for each argument.
fn handle<E: 'static>(
    procedure: Arc<Procedure>,
    span: Span,
    handler: Handler<E>,
) -> impl Future<Output = Result<UnaryResponse, E>> + Send + 'static {
    let began = Instant::now();
    let run = AssertUnwindSafe(async move { handler.run().await }).catch_unwind();
    let ended = run.map(move |ended| {
        procedure.telemetry().took(TimedStep::Handler, began);
        match &ended {
            Ok(Ok(response)) if response.is_success() => telemetry::executed(&"Ok"),
            Ok(Ok(response)) => telemetry::executed(&format_args!("{:?}", response.code())),
            Ok(Err(_)) => telemetry::executed(&format_args!("{:?}", Code::Unknown)),
            Err(_panic) => telemetry::executed(&"panicked"),
        }
        ended.unwrap_or_else(|_panic| {
            procedure.telemetry().panicked();
            Ok(UnaryResponse::failed(Status::internal("the handler panicked")))
        })
    });
    ended.instrument(span)
}
