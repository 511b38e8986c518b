//! What became of a COMMIT whose answer was lost.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_postgres::types::Type;

use crate::store::{
    CommitOutcome, Reservation, StoreError, StoreErrorKind,
    postgres::{connection::Connections, row::column},
};

/// How long to wait before the first second look, and at most.
const PAUSES: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(250)];

/// Looks it up, never guesses: the record is there, or it is not and no transaction of the key is open that could still
/// bring it.
///
/// # Errors
///
/// What became of it cannot be found out in time: of the kind [`Interrupted`](StoreErrorKind::Interrupted), with `cause`.
/// It was rolled back: of the kind [`Unreachable`](StoreErrorKind::Unreachable).
pub(super) async fn look_up(
    connections: &Connections,
    reservation: &Reservation,
    deadline: Instant,
    cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> Result<CommitOutcome, StoreError> {
    let [mut pause, longest] = PAUSES;
    loop {
        match look(connections, reservation).await {
            Ok(Some(true)) => return Ok(CommitOutcome::Committed),
            Ok(Some(false)) => return Err(StoreError::new(StoreErrorKind::Unreachable, cause)),
            // Still open, or no answer: the database may be coming back.
            Ok(None) | Err(_) if Instant::now() + pause < deadline => sleep(pause).await,
            Ok(None) | Err(_) => return Err(StoreError::new(StoreErrorKind::Interrupted, cause)),
        }
        pause = (pause * 2).min(longest);
    }
}

/// Whether it was committed; `None` while that is open.
async fn look(connections: &Connections, reservation: &Reservation) -> Result<Option<bool>, StoreError> {
    let Reservation { user, key, token } = reservation;
    let settled = connections
        .query_one(include_str!("../sql/settled.sql"), &[(user.as_uuid(), Type::UUID), (key.as_uuid(), Type::UUID)])
        .await?;
    let settled: bool = column(&settled, "settled")?;
    // After the look at the lock, and in a statement of its own: what was committed before is in its snapshot.
    let committed = connections
        .query_one(
            include_str!("../sql/committed.sql"),
            &[(user.as_uuid(), Type::UUID), (key.as_uuid(), Type::UUID), (token, Type::UUID)],
        )
        .await?;
    match (column(&committed, "committed")?, settled) {
        (true, _) => Ok(Some(true)),
        (false, true) => Ok(Some(false)),
        (false, false) => Ok(None),
    }
}
