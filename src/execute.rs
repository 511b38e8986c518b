//! Runs a handler while its key is held.

use std::{convert::Infallible, panic::AssertUnwindSafe, pin::pin};

use futures_util::{
    FutureExt as _,
    future::{Either, select},
};
use tonic::Status;

use crate::{
    Execution, HangUpPolicy, Procedure, call::Call, engine::Engine, heartbeat::heartbeat, hold::Hold, telemetry,
    wire::UnaryResponse,
};

/// How a handler ended.
pub(crate) struct Outcome<E> {
    pub(crate) response: Result<UnaryResponse, E>,
    /// The handler said that its effect is there, whatever else it says.
    pub(crate) effect_committed: bool,
}

impl Engine {
    /// Runs the handler with what it needs in its extensions, and keeps the key for as long as that takes.
    pub(crate) async fn execute<H, F, E>(&self, call: &Call, hold: Hold, handler: H) -> (Hold, Outcome<E>)
    where
        H: FnOnce(http::Extensions) -> F,
        F: Future<Output = Result<UnaryResponse, E>>,
    {
        let execution = Execution::default();
        let mut extensions = http::Extensions::new();
        extensions.insert(execution.clone());
        let (hold, response) = match hold {
            Hold::Reservation(mut lease) => {
                let handler = handle(&call.procedure, handler, extensions);
                let response = meanwhile(handler, heartbeat(&*self.store, call, &mut lease, &execution)).await;
                (Hold::Reservation(lease), response)
            }
            Hold::Transaction(transaction) => {
                transaction.hand_out(&mut extensions);
                let handler = handle(&call.procedure, handler, extensions);
                let response = match call.procedure.policies().on_hang_up {
                    HangUpPolicy::Finish => handler.await,
                    HangUpPolicy::RollBack => call.hung_up.run_until_cancelled(handler).await.unwrap_or_else(|| {
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
async fn meanwhile<T>(first: impl Future<Output = T>, beside: impl Future<Output = Infallible>) -> T {
    match select(pin!(first), pin!(beside)).await {
        Either::Left((output, _)) => output,
        Either::Right((never, _)) => match never {},
    }
}

/// Runs the handler, and answers its panic with `INTERNAL`. Nothing that it may have left half changed is looked at again.
pub(crate) async fn handle<H, F, E>(
    procedure: &Procedure,
    handler: H,
    extensions: http::Extensions,
) -> Result<UnaryResponse, E>
where
    H: FnOnce(http::Extensions) -> F,
    F: Future<Output = Result<UnaryResponse, E>>,
{
    AssertUnwindSafe(async { handler(extensions).await }).catch_unwind().await.unwrap_or_else(|_panic| {
        telemetry::panicked(procedure);
        Ok(UnaryResponse::failed(Status::internal("the handler panicked")))
    })
}
