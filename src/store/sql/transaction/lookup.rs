//! Looks up the outcome of a COMMIT whose answer was lost.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::{
    pause::Pauses,
    store::{
        CommitOutcome, Reservation, StoreError, StoreErrorKind,
        sql::{connections::Connections, driver::Driver, statements::column},
    },
};

/// The pauses before further looks.
const PAUSES: Pauses = Pauses::new(Duration::from_millis(5), Duration::from_millis(250));

/// Looks until the outcome is certain: the record exists, or it does not and no open transaction of the key can still
/// commit it.
///
/// # Errors
///
/// Both errors have `cause` as their source. `rolled_back` is the kind of the error if the transaction was rolled back.
/// [`Interrupted`](StoreErrorKind::Interrupted): the outcome is not known at the deadline.
pub(super) async fn look_up<D: Driver>(
    connections: &Connections<D>,
    reservation: &Reservation,
    deadline: Instant,
    rolled_back: StoreErrorKind,
    cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> Result<CommitOutcome, StoreError> {
    let mut pauses = PAUSES;
    loop {
        let pause = pauses.next();
        match look(connections, reservation, deadline).await {
            Ok(Some(true)) => return Ok(CommitOutcome::Committed),
            Ok(Some(false)) => return Err(StoreError::new(rolled_back, cause)),
            // The transaction is still open, or the database does not answer yet.
            Ok(None) | Err(_) if Instant::now() + pause < deadline => sleep(pause).await,
            Ok(None) | Err(_) => return Err(StoreError::new(StoreErrorKind::Interrupted, cause)),
        }
    }
}

/// Returns whether the transaction was committed; `None` while it may be open.
async fn look<D: Driver>(
    connections: &Connections<D>,
    reservation: &Reservation,
    deadline: Instant,
) -> Result<Option<bool>, StoreError> {
    let Reservation { owner, key, token } = reservation;
    let parameters = &[(*owner.as_uuid()).into(), (*key.as_uuid()).into(), (*token).into()];
    let committed = connections.query_one_until(deadline, &connections.sql().committed, parameters).await?;
    column(&committed, "committed")
}
