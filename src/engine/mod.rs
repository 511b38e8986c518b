//! The protocol: claim → handler → settle.

pub(crate) mod call;
pub(crate) mod clock_reading;
pub(crate) mod degrade;
pub(crate) mod dispatch;
pub(crate) mod execute;
pub(crate) mod handler;
pub(crate) mod heartbeat;
pub(crate) mod held_key;
pub(crate) mod reconcile;
pub(crate) mod replay;
pub(crate) mod replay_cache;
pub(crate) mod settle;
pub(crate) mod shutdown;
pub(crate) mod single_flight;
pub(crate) mod tracker;
pub(crate) mod without_key;

use std::sync::Arc;

use crate::{
    Mode,
    engine::{
        call::Call,
        clock_reading::Moment,
        handler::Handler,
        held_key::{Claimed, Hold, Lease},
        reconcile::{Reconcilers, Verdict},
        replay_cache::ReplayCache,
        shutdown::Stage,
        single_flight::{Flight, Flights},
        tracker::Running,
    },
    grpc::{Kept, UnaryResponse},
    rejection::Rejection,
    status::resolver::DynStatusResolver,
    store::{Begun, ClaimOutcome, DynStore, StoreError},
    telemetry::{self, Step},
};

/// What the calls of one layer share.
pub(crate) struct Engine {
    pub(crate) store: Arc<dyn DynStore>,
    /// Asked instead of the store.
    pub(crate) status_resolver: Option<Box<dyn DynStatusResolver>>,
    pub(crate) reconcilers: Reconcilers,
    /// The response metadata that is kept, and replayed.
    pub(crate) kept_metadata: Kept,
    /// The size in bytes of a message from which on a replay is compressed.
    pub(crate) compress_replays_from: usize,
    /// The largest response that is kept, in bytes.
    pub(crate) max_response_bytes: usize,
    /// What is run once for all who wait for it.
    pub(crate) flights: Arc<Flights>,
    /// What need not be asked for again.
    pub(crate) replays: ReplayCache,
    /// What runs, and has to end before the process does.
    pub(crate) running: Running,
}

/// What came of an attempt to run a call.
#[expect(clippy::large_enum_variant, reason = "almost all are answered")]
pub(crate) enum Attempt<E> {
    Answered(Result<UnaryResponse, E>),
    /// Another call holds the key, and this one is to wait for it. The handler has not run.
    InFlight(Arc<Call>, Handler<E>),
}

impl Engine {
    /// Runs the handler, unless the key says that this was done before.
    ///
    /// To be run in a task of its own: dropped in the middle, it leaves the key reserved until the lease ends. What does not
    /// happen while the handler runs is boxed: it takes no memory then.
    pub(crate) async fn run<E>(&self, call: Arc<Call>, handler: Handler<E>, flight: Option<&Flight>) -> Attempt<E> {
        telemetry::step(Step::BeforeClaim);
        let running = self.running.claiming(&call);
        let hold = match self.claim(&call).await {
            Ok(Claimed::Acquired(hold)) => hold,
            Ok(Claimed::TakenOver(hold)) => match Box::pin(self.reconcile(&call, hold)).await {
                Verdict::NotExecuted(hold) => hold,
                Verdict::NotRecorded => return Attempt::Answered(call.reject(Rejection::StoreUnavailable)),
                Verdict::Recorded => return Attempt::Answered(Box::pin(self.look_again(&call)).await),
                Verdict::Unknown => return Attempt::Answered(call.reject(Rejection::OutcomeUnknown)),
            },
            Ok(Claimed::Refused { outcome: ClaimOutcome::InFlight { .. }, .. }) if flight.is_some() => {
                return Attempt::InFlight(call, handler);
            }
            Ok(Claimed::Refused { outcome, asked }) => {
                return Attempt::Answered(self.answer(&call, outcome, asked, flight).await);
            }
            Err(error) => {
                running.turn_to(Stage::Handler);
                return Attempt::Answered(Box::pin(self.degrade(call, &error, handler)).await);
            }
        };
        telemetry::step(Step::AfterClaim);
        telemetry::first(&call.procedure);
        running.turn_to(Stage::Handler);
        let (hold, outcome) = self.execute(&call, hold, handler).await;
        running.turn_to(Stage::Recording);
        telemetry::step(Step::BeforeSettle);
        let response = Box::pin(self.settle(&call, hold, outcome, flight)).await;
        telemetry::step(Step::AfterSettle);
        Attempt::Answered(response)
    }

    /// Asks the store for the key: for a reservation, or for a transaction.
    pub(crate) async fn claim(&self, call: &Call) -> Result<Claimed, StoreError> {
        let policies = call.procedure.policies();
        let asked = Moment::now();
        let lease = Lease::from(asked.monotonic, policies.lease);
        let claimed = match policies.mode {
            Mode::Reserved => match self.store.claim(&call.claim()).await? {
                ClaimOutcome::Acquired => Claimed::Acquired(Hold::Reservation(lease)),
                ClaimOutcome::TakenOver => Claimed::TakenOver(Hold::Reservation(lease)),
                outcome => Claimed::Refused { outcome, asked },
            },
            Mode::Transactional => match self.store.begin(&call.claim(), call.transaction_options()).await? {
                Begun::Open { transaction, taken_over: false } => Claimed::Acquired(Hold::Transaction(transaction)),
                Begun::Open { transaction, taken_over: true } => Claimed::TakenOver(Hold::Transaction(transaction)),
                Begun::Refused(outcome) => Claimed::Refused { outcome, asked },
            },
        };
        if !matches!(claimed, Claimed::Refused { outcome: ClaimOutcome::Replay(_), .. }) {
            self.replays.forget(call);
        }
        Ok(claimed)
    }
}
