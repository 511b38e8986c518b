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

use crate::{
    Execution, Procedure,
    engine::{Engine, call::Call, handler::Handler, heartbeat::heartbeat, held_key::Hold},
    grpc::UnaryResponse,
    telemetry,
};

/// How a handler ended.
pub(crate) struct Outcome<E> {
    pub(crate) response: Result<UnaryResponse, E>,
    /// The handler said that its effect is there, whatever else it says.
    pub(crate) effect_committed: bool,
}

impl Engine {
    /// Runs the handler with what it needs in its extensions, and keeps the key for as long as that takes.
    pub(crate) async fn execute<E>(&self, call: &Call, hold: Hold, mut handler: Handler<E>) -> (Hold, Outcome<E>) {
        let execution = Execution::new(call.deadline);
        handler.extensions_mut().insert(execution.clone());
        let (hold, response) = match hold {
            Hold::Reservation(mut lease) => {
                let handler = handle(&call.procedure, handler);
                let heartbeat = heartbeat(&*self.store, call, &mut lease, &execution);
                let response = meanwhile(pin!(handler), pin!(heartbeat)).await;
                (Hold::Reservation(lease), response)
            }
            Hold::Transaction(transaction) => {
                transaction.hand_out(handler.extensions_mut());
                let handler = handle(&call.procedure, handler);
                let response = match &call.hung_up {
                    None => handler.await,
                    Some(hung_up) => hung_up.run_until_cancelled(handler).await.unwrap_or_else(|| {
                        telemetry::hung_up(&call.procedure);
                        Ok(UnaryResponse::failed(Status::cancelled("the client went away")))
                    }),
                };
                (Hold::Transaction(transaction), response)
            }
        };
        (hold, Outcome { response, effect_committed: execution.is_effect_committed() })
    }
}

/// What the first comes to, with the other running beside it.
async fn meanwhile<T>(
    first: Pin<&mut impl Future<Output = T>>,
    beside: Pin<&mut impl Future<Output = Infallible>>,
) -> T {
    match select(first, beside).await {
        Either::Left((output, _)) => output,
        Either::Right((never, _)) => match never {},
    }
}

/// Runs the handler, and answers its panic with `INTERNAL`. Nothing that it may have left half changed is looked at again.
pub(crate) async fn handle<E>(procedure: &Procedure, handler: Handler<E>) -> Result<UnaryResponse, E> {
    AssertUnwindSafe(async { handler.run().await }).catch_unwind().await.unwrap_or_else(|_panic| {
        telemetry::panicked(procedure);
        Ok(UnaryResponse::failed(Status::internal("the handler panicked")))
    })
}
