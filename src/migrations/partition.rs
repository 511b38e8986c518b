//! Partitions of the table of keys.

use tokio_postgres::{Client, types::Type};

use super::{MigrationError, partition_sql, partitions_sql, run::execute};
use crate::store::Schema;

const MOVE: &str = "CALL tenant.idempotency_move_to_partitions($1)";

/// Makes the functions that partitions need: [`partitions_sql`] says which. [`partition`] and [`move_to_partitions`] do that first.
///
/// # Errors
///
/// [`MigrationError`], as for [`run`](super::run).
///
/// # Cancel safety
///
/// One transaction: if the future is dropped, it has run or not.
pub async fn partitions(client: &Client, schema: &Schema) -> Result<(), MigrationError> {
    execute(client, &partitions_sql(schema)).await
}

/// Makes an empty table of keys one of `partitions` partitions, hash-partitioned by user: 16 is right for nearly all. Run it right after
/// [`run`](super::run), at every start: a table that has as many partitions is not changed. Several servers may run it at once.
/// `docs/operations.md` says when partitions pay.
///
/// The number is from 2 to 256. It cannot be changed later.
///
/// # Errors
///
/// [`MigrationError`] if the database refuses: the number is out of range, the table has another number of partitions, it is not empty
/// ([`move_to_partitions`]), it is distributed over the nodes of a Citus cluster, or something depends on it that partitions do not allow, such
/// as a view.
///
/// # Cancel safety
///
/// If the future is dropped, the table is partitioned or not, nothing in between.
pub async fn partition(client: &Client, schema: &Schema, partitions: u16) -> Result<(), MigrationError> {
    execute(client, &partition_sql(schema, partitions)).await
}

/// Moves a table of keys in use to `partitions` partitions, from 2 to 256, while calls go on: with servers of this version, of earlier
/// ones, and with the Go interceptor. It copies and compares the records that have not expired, which takes one to two minutes for each
/// million, and as much space again. No call waits longer than 100 ms for it. A table that has as many partitions is not changed.
///
/// # Errors
///
/// [`MigrationError`] if the database refuses, as for [`partition`], or if transactions on the table never leave a gap of 50 ms. Call it
/// again: it goes on. `SELECT tenant.idempotency_stop_moving()` takes everything back instead, and a move that still runs ends with an error.
/// A record that differs from its copy is an error, too, before anything is switched: take everything back then, and begin again.
///
/// # Cancel safety
///
/// If the future is dropped, the database goes on until the connection ends. Call it again, or take everything back, as after an error.
/// Several at once share the work.
pub async fn move_to_partitions(client: &Client, schema: &Schema, partitions: u16) -> Result<(), MigrationError> {
    self::partitions(client, schema).await?;
    client.query_typed(&schema.apply(MOVE), &[(&i32::from(partitions), Type::INT4)]).await?;
    Ok(())
}
