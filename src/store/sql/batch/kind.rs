//! The kinds of calls that share statements.

use tokio::time::Instant;

use crate::store::{
    Reservation, ServerClock,
    sql::{
        driver::{Connection, DriverError},
        statements::Sql,
    },
};

/// A time, and what the server's clock shows then.
pub(in crate::store::sql) type Until<'a> = (&'a ServerClock, Instant);

/// A kind of batched statement.
///
/// It handles only the common case, and gives no answer to other calls: they fall back to the single statement.
pub(in crate::store::sql) trait Kind: Send + Sync + 'static {
    /// Whether the statement writes. Then it is never cancelled: a cancelled wait for a synchronous standby ends with success, and others
    /// see what a failover may take back.
    const WRITES: bool;

    /// The request of a call.
    type Item: Send + Sync + 'static;
    /// The answer to the call.
    type Answer: Send + 'static;

    /// Returns whether two items may share a statement.
    fn may_share(one: &Self::Item, other: &Self::Item) -> bool;

    /// Returns the reservation of an item. A statement has each key of an owner, and each token, at most once.
    fn reservation(item: &Self::Item) -> &Reservation;

    /// Returns about how many bytes an item's parameters have.
    fn bytes(item: &Self::Item) -> usize;

    /// Runs one statement for items that may share it. It reserves no key after `until`. Returns an answer for each item, in their order;
    /// `None` for one that has to be sent alone.
    ///
    /// # Errors
    ///
    /// [`DriverError`] if the statement fails, for all items: nothing was done then, unless the error says that its answer is lost.
    fn run<C: Connection>(
        connection: &mut C,
        sql: &Sql,
        until: Until<'_>,
        items: &[&Self::Item],
    ) -> impl Future<Output = Result<Vec<Option<Self::Answer>>, DriverError>> + Send;
}
