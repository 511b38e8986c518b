//! Moves the table of keys to partitions while everything fails.

use std::{sync::Arc, time::Duration};

use tokio::time;
use tokio_util::task::AbortOnDropHandle;

use crate::{error::Error, pace::Pace, topology::Database};

/// The pause after an interruption, and how many there may be.
const PAUSE: Duration = Duration::from_millis(200);
const INTERRUPTIONS: u32 = 1_000;

/// The move, which goes on after each interruption. Ends when dropped.
#[derive(Debug)]
pub(crate) struct Mover(AbortOnDropHandle<Result<u32, Error>>);

impl Mover {
    /// Moves the table to this many partitions, row by row, once that many operations have begun.
    pub(crate) fn start(database: Arc<Database>, pace: Arc<Pace>, partitions: u16, operations: u32) -> Self {
        Self(AbortOnDropHandle::new(tokio::spawn(async move {
            pace.reached(operations).await;
            let mut interruptions = 0;
            loop {
                match move_on(&database, partitions).await {
                    Ok(()) => return Ok(interruptions),
                    Err(_) if interruptions < INTERRUPTIONS => interruptions += 1,
                    Err(error) => return Err(error),
                }
                time::sleep(PAUSE).await;
            }
        })))
    }

    /// Waits for the end of the move. Returns how often it was interrupted.
    ///
    /// # Errors
    ///
    /// It was interrupted without end.
    pub(crate) async fn finish(self) -> Result<u32, Error> {
        self.0.await?
    }
}

async fn move_on(database: &Database, partitions: u16) -> Result<(), Error> {
    let owner = database.connect().await?;
    let moved = format!("CALL tenant.idempotency_move_to_partitions({partitions}, p_batch => 1, p_rest => 10)");
    Ok(owner.batch_execute(&moved).await?)
}
