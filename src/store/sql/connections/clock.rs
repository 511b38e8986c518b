//! The database's clock, which limits the time of an attempt to claim a key.

use std::time::Duration;

use tokio::time::Instant;

use crate::store::{
    ServerClock,
    sql::{
        driver::{Connection, DriverError, Row, Statement},
        statements::{CLOCK, column, only_row},
    },
};

/// Returns the time that the clock shows at this instant, in seconds. Asks the server if no answer has told the time yet.
pub(in crate::store::sql) async fn shows_at(
    clock: &ServerClock,
    time: Instant,
    connection: &mut impl Connection,
) -> Result<f64, DriverError> {
    let shows = match clock.shows_at(time) {
        Some(shows) => shows,
        None => {
            let sent = Instant::now();
            let row = connection.query(Statement { sql: CLOCK, parameters: &[] }).await.and_then(only_row)?;
            read(clock, sent, &row, "clock");
            clock
                .shows_at(time)
                .ok_or_else(|| DriverError::unanswered("the answer to another statement: it has no time"))?
        }
    };
    Ok(shows.as_secs_f64())
}

/// Reads the clock off a row. Its statement was sent at that time.
pub(in crate::store::sql) fn read(clock: &ServerClock, sent: Instant, row: &impl Row, name: &str) {
    let shown = column::<Option<f64>>(row, name).ok().flatten().map(Duration::try_from_secs_f64);
    if let Some(Ok(shown)) = shown {
        clock.note(sent, shown);
    }
}
