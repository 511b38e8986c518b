//! Runs a handler while its key is held.

use std::{
    convert::Infallible,
    panic::AssertUnwindSafe,
    pin::{Pin, pin},
};

use futures_util::{
    FutureExt as _,
    future::{Either, select},
};
use tonic::Status;

use super::{call::Call, handler::Handler, heartbeat::heartbeat, held_key::HeldKey, state::Engine};
use crate::{execution::Execution, grpc::UnaryResponse, policy::Procedure};

/// The way in which a handler ended.
pub(super) struct Outcome<E> {
    pub(super) response: Result<UnaryResponse, E>,
    /// The handler said that its effect has happened, whatever its response says.
    pub(super) effect_committed: bool,
}

/// Runs the handler with the tools in its extensions that its mode needs, and keeps the key until it has ended.
pub(super) async fn execute<E>(
    engine: &Engine,
    call: &Call,
    key: HeldKey,
    mut handler: Handler<E>,
) -> (HeldKey, Outcome<E>) {
    let execution = Execution::new(call.deadline);
    handler.extensions_mut().insert(execution.clone());
    let (key, response) = match key {
        HeldKey::Reservation(mut lease) => {
            let handler = handle(&call.procedure, handler);
            let heartbeat = heartbeat(&*engine.store, call, &mut lease, &execution);
            let response = beside(pin!(handler), pin!(heartbeat)).await;
            (HeldKey::Reservation(lease), response)
        }
        HeldKey::Transaction(transaction) => {
            transaction.hand_out(handler.extensions_mut());
            let handler = handle(&call.procedure, handler);
            let response = match &call.disconnected {
                None => handler.await,
                Some(disconnected) => disconnected.run_until_cancelled(handler).await.unwrap_or_else(|| {
                    call.procedure.telemetry().disconnected();
                    Ok(UnaryResponse::failed(Status::cancelled("the client disconnected")))
                }),
            };
            (HeldKey::Transaction(transaction), response)
        }
    };
    (key, Outcome { response, effect_committed: execution.is_effect_committed() })
}

/// Runs the handler, and answers a panic with `INTERNAL`. Whatever the panic left half changed is not used again.
pub(super) async fn handle<E>(procedure: &Procedure, handler: Handler<E>) -> Result<UnaryResponse, E> {
    AssertUnwindSafe(async { handler.run().await }).catch_unwind().await.unwrap_or_else(|_panic| {
        procedure.telemetry().panicked();
        Ok(UnaryResponse::failed(Status::internal("the handler panicked")))
    })
}

/// Runs `work` to its end, and `background` beside it.
async fn beside<T>(
    work: Pin<&mut impl Future<Output = T>>,
    background: Pin<&mut impl Future<Output = Infallible>>,
) -> T {
    match select(work, background).await {
        Either::Left((output, _)) => output,
        Either::Right((never, _)) => match never {},
    }
}
