//! Runs a call, and waits where another holds its key.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::Instrument as _;

use crate::{
    InProgressPolicy,
    engine::{
        Attempt, Engine,
        call::{Call, Recorded},
        handler::Handler,
        single_flight::{Flight, Joined},
    },
    grpc::UnaryResponse,
    rejection::Rejection,
    telemetry,
};

/// How long to wait before the first second look at a key that another process holds, and at most.
const PAUSES: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(1)];

impl Engine {
    /// Runs a call in a task that outlives the caller: the client may hang up any moment, and then tonic drops this future
    /// wherever it stands. What is known already needs none. Waits, outside of that task and without a connection, where its
    /// procedure says so.
    pub(crate) async fn call<E: Send + 'static>(
        self: Arc<Self>,
        call: Arc<Call>,
        handler: Handler<E>,
        timeout: Option<Duration>,
    ) -> Option<Result<UnaryResponse, E>> {
        if !self.running.stopping().is_cancelled()
            && let Some(recorded) = self.replays.get(&call)
        {
            telemetry::asked_nobody(&call.procedure);
            return Some(Ok(call.replay(recorded)));
        }
        if call.procedure.policies().on_in_progress == InProgressPolicy::Abort {
            return self.spawned(call, handler, None).await.map(|attempt| match attempt {
                Attempt::Answered(response) => response,
                Attempt::InFlight(call, _) => call.reject(in_progress()),
            });
        }
        let max_wait = call.procedure.policies().max_wait;
        let deadline = Instant::now() + timeout.map_or(max_wait, |timeout| timeout.min(max_wait));
        loop {
            let mut others = match self.flights.join(&call) {
                Joined::Leads(flight) => return self.lead(call, handler, flight, deadline).await,
                Joined::Follows(others) => others,
            };
            let Some(_place) = self.flights.place() else { return Some(call.reject(in_progress())) };
            let landed = async { others.wait_for(Option::is_some).await.ok().and_then(|recorded| recorded.clone()) };
            let stopping = self.running.stopping();
            match stopping.run_until_cancelled(Box::pin(timeout_at(deadline, landed))).await {
                Some(Ok(Some(recorded))) => return Some(Ok(call.replay(Recorded::clone(&recorded)))),
                // It failed, and the key is free: somebody has to lead.
                Some(Ok(None)) => {}
                Some(Err(_)) => return Some(call.reject(in_progress())),
                None => return Some(call.reject(Rejection::ShuttingDown)),
            }
        }
    }

    /// Runs a call that others of this process may wait for, or looks again and again until the process that does has ended.
    async fn lead<E: Send + 'static>(
        self: Arc<Self>,
        mut call: Arc<Call>,
        mut handler: Handler<E>,
        flight: Arc<Flight>,
        deadline: Instant,
    ) -> Option<Result<UnaryResponse, E>> {
        let [mut pause, longest] = PAUSES;
        let mut place = None;
        loop {
            (call, handler) = match self.spawned(call, handler, Some(Arc::clone(&flight))).await? {
                Attempt::Answered(response) => return Some(response),
                Attempt::InFlight(call, handler) => (call, handler),
            };
            place = place.or_else(|| self.flights.place());
            let next = Instant::now() + pause;
            if place.is_none() || next > deadline {
                return Some(call.reject(in_progress()));
            }
            if self.running.stopping().run_until_cancelled(Box::pin(sleep_until(next))).await.is_none() {
                return Some(call.reject(Rejection::ShuttingDown));
            }
            pause = (pause * 2).min(longest);
        }
    }

    /// One attempt, in a task of its own; `None` where that panicked or was dropped with its runtime. None is begun that
    /// a shutdown would not wait for.
    async fn spawned<E: Send + 'static>(
        self: &Arc<Self>,
        call: Arc<Call>,
        handler: Handler<E>,
        flight: Option<Arc<Flight>>,
    ) -> Option<Attempt<E>> {
        // Waited for from before the look, so that a shutdown either sees this one or is seen by it.
        let waited_for = self.running.tasks().token();
        if self.running.stopping().is_cancelled() {
            return Some(Attempt::Answered(call.reject(Rejection::ShuttingDown)));
        }
        let engine = Arc::clone(self);
        let attempt = async move { engine.run(call, handler, flight.as_deref()).await };
        let task = self.running.tasks().spawn(attempt.in_current_span());
        drop(waited_for);
        task.await.ok()
    }
}

/// Its lease is not known any more, and does not matter: the other call may end any moment.
fn in_progress() -> Rejection {
    Rejection::InProgress { lease_left: Duration::MAX }
}
