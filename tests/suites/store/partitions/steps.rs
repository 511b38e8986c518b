//! The steps of a move, by hand.

use tokio_postgres::Client;

use super::PARTITIONS;

/// Does the next step, and returns its name.
pub(super) async fn step(mover: &Client) -> String {
    let step = format!("SELECT s.step FROM tenant.idempotency_move_step({PARTITIONS}, 500, NULL) s");
    mover.query_typed_one(&step, &[]).await.expect("a step").get(0)
}

/// Does steps until this one is done.
pub(super) async fn until_step(mover: &Client, last: &str) {
    while step(mover).await != last {}
}
