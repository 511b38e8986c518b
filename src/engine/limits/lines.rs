//! The lines of operations: for calls, and for transactions.

use std::{pin::pin, sync::Arc, time::Duration};

use tokio::{
    sync::{AcquireError, OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{
    policy::{Limits, Mode, Procedure},
    rejection::Rejection,
};

/// The wait after which a run that stands in a line is worth a log line.
const LONG: Duration = Duration::from_secs(60);

/// The lines of a layer's operations. A consumer starts as many runs as it has messages: those beyond what one caller may have at once stand
/// in line, and are not rejected. They count for no limit, and hold nothing.
pub(crate) struct Lines {
    calls: Arc<Semaphore>,
    transactions: Arc<Semaphore>,
}

impl Lines {
    /// `transactions` is the most of one caller that the store has at once.
    pub(crate) fn new(limits: &Limits, transactions: usize) -> Self {
        let places = |number: usize| Arc::new(Semaphore::new(number.clamp(1, Semaphore::MAX_PERMITS)));
        Self { calls: places(limits.in_flight.caller), transactions: places(transactions) }
    }

    /// Waits for a place, and has it until the result is dropped. A transactional run stands in both lines, one after the other.
    ///
    /// # Errors
    ///
    /// The layer shuts down.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the run leaves the line.
    pub(crate) async fn enter(
        &self,
        procedure: &Procedure,
        shutting_down: &CancellationToken,
    ) -> Result<Place, Rejection> {
        let turn = async {
            let transaction = match procedure.policies().mode {
                Mode::Reserved => None,
                Mode::Transactional => Some(Arc::clone(&self.transactions).acquire_owned().await?),
            };
            Ok(Place { _call: Arc::clone(&self.calls).acquire_owned().await?, _transaction: transaction })
        };
        let told = async {
            let mut turn = pin!(turn);
            match timeout(LONG, &mut turn).await {
                Ok(turn) => turn,
                Err(_) => {
                    procedure.telemetry().stands_in_line();
                    turn.await
                }
            }
        };
        match shutting_down.run_until_cancelled(Box::pin(told)).await {
            Some(Ok::<_, AcquireError>(place)) => Ok(place),
            // The lines are never closed.
            Some(Err(_)) | None => Err(Rejection::ShuttingDown),
        }
    }
}

/// A place among the runs that need not wait any longer.
pub(crate) struct Place {
    _call: OwnedSemaphorePermit,
    _transaction: Option<OwnedSemaphorePermit>,
}
