//! The steps of a move, by hand.

use tokio_postgres::Client;

use super::PARTITIONS;

/// Does the next step, and returns its name.
pub(super) async fn step(mover: &Client) -> String {
    let step = format!("SELECT s.step FROM tenant.idempotency_move_step({PARTITIONS}, 500, NULL) s");
    crate::record::value(mover, &step).await
}

/// Does steps until this one is done.
pub(super) async fn until_step(mover: &Client, last: &str) {
    while step(mover).await != last {}
}
