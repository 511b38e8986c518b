//! Questions about the server that belong to no call: its clock, and the statements that run in it.

use std::time::Duration;

/// Returns the time that the clock shows, in seconds.
pub(in crate::store::sql) const CLOCK: &str =
    "SELECT pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) AS clock";

/// Counts the store's statements, of all processes that log in as this one does, that were under way for more than half of this time: they
/// may have been sent late. Behind the number it says what they wait for: the type and the name of each event.
pub(in crate::store::sql) fn running(age: Duration) -> String {
    format!(
        r"SELECT pg_catalog.concat_ws(
              ' ', pg_catalog.count(*), pg_catalog.string_agg(
                  DISTINCT CASE WHEN a.wait_event_type IS NOT NULL THEN pg_catalog.concat_ws(' ', a.wait_event_type, a.wait_event) END, ', '
              )
          )
          FROM pg_catalog.pg_stat_activity a
          WHERE a.datname OPERATOR(pg_catalog.=) pg_catalog.current_database() AND a.usename OPERATOR(pg_catalog.=) session_user
            AND a.state OPERATOR(pg_catalog.=) 'active' AND a.pid OPERATOR(pg_catalog.<>) pg_catalog.pg_backend_pid()
            AND a.query OPERATOR(pg_catalog.~*) 'idempotency|commit'
            AND pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) a.query_start)
                OPERATOR(pg_catalog.>=) {}",
        age.as_secs_f64() / 2.0
    )
}
