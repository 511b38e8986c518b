//! The lines of operations: one for each mode.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use crate::{
    engine::shared::tracker::CallTracker,
    policy::{Limits, Mode, Procedure},
    rejection::Rejection,
};

/// The wait after which a run that stands in a line is worth a log line.
const LONG: Duration = Duration::from_secs(60);

/// The lines of a layer's operations. A consumer starts as many runs as it has messages: those beyond what one caller may have at once stand
/// in line, and are not refused. They count for no limit, and hold nothing.
pub(crate) struct Lines {
    reserved: Arc<Semaphore>,
    transactional: Arc<Semaphore>,
}

impl Lines {
    /// `transactions` is the most of one caller that the store has at once.
    pub(crate) fn new(limits: &Limits, transactions: usize) -> Self {
        let calls = limits.in_flight.at_least_one().caller.min(Semaphore::MAX_PERMITS);
        let places = |number: usize| Arc::new(Semaphore::new(number));
        Self { reserved: places(calls), transactional: places(calls.min(transactions.max(1))) }
    }

    /// Waits for a place, and has it until the result is dropped.
    ///
    /// # Errors
    ///
    /// The layer shuts down.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the run leaves the line.
    pub(crate) async fn enter(&self, procedure: &Procedure, tracker: &CallTracker) -> Result<Place, Rejection> {
        let line = match procedure.policies().mode {
            Mode::Reserved => &self.reserved,
            Mode::Transactional => &self.transactional,
        };
        if let Ok(place) = Arc::clone(line).try_acquire_owned() {
            return Ok(Place(place));
        }
        let turn = async {
            let mut turn = Box::pin(Arc::clone(line).acquire_owned());
            match timeout(LONG, &mut turn).await {
                Ok(turn) => turn,
                Err(_) => {
                    procedure.telemetry().stands_in_line();
                    turn.await
                }
            }
        };
        match tracker.shutting_down().run_until_cancelled(turn).await {
            Some(Ok(place)) => Ok(Place(place)),
            // The lines are never closed.
            Some(Err(_)) | None => Err(Rejection::ShuttingDown),
        }
    }
}

/// A place among the runs that need not wait any longer.
pub(crate) struct Place(#[expect(dead_code, reason = "its drop frees it")] OwnedSemaphorePermit);
