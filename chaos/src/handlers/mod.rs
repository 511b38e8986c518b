//! Handlers on the drivers that the sample has none for: those of the procedures that the clients call. They pass the same steps as
//! the sample's.

#[cfg(feature = "diesel")]
mod diesel;
#[cfg(feature = "sea-orm")]
mod sea_orm;
mod services;

#[cfg(feature = "diesel")]
pub(crate) use self::diesel::Diesel;
#[cfg(feature = "sea-orm")]
pub(crate) use self::sea_orm::SeaOrm;

use std::fmt;

use organization::Call;
use tonic::Status;
use uuid::Uuid;

/// The number of connections of a pool, as the sample has them.
#[cfg(feature = "diesel")]
const MOST_CONNECTIONS: usize = 16;

/// A row that a create call inserts.
#[derive(Clone, Copy, Debug)]
enum Row<'a> {
    Cluster { name: &'a str, region: &'a str },
    Invitation { email: &'a str, role: &'a str, key: Option<Uuid> },
    Project { cluster: Uuid, name: &'a str },
}

/// The database of the handlers.
trait Database: Clone + fmt::Debug + Send + Sync + 'static {
    /// The connection of a handler's writes: in the call's transaction, or in one of the handler.
    type Writes: Send;

    /// Begins the writes of a call: in the call's transaction in transactional mode, in a transaction of the handler, as its
    /// user, in reserved mode.
    fn begin(&self, call: &Call) -> impl Future<Output = Result<Self::Writes, Status>> + Send;

    /// Inserts a row, and returns its id.
    fn insert(writes: &mut Self::Writes, row: Row<'_>) -> impl Future<Output = Result<Uuid, Status>> + Send;

    /// Returns an invitation of this user that was made with this key, and its recipient.
    fn invitation(
        writes: &mut Self::Writes,
        user: Uuid,
        key: Option<Uuid>,
    ) -> impl Future<Output = Result<Option<(Uuid, String)>, Status>> + Send;

    /// Sends the mail of an invitation, if it was not sent before.
    fn send_mail(
        writes: &mut Self::Writes,
        invitation: Uuid,
        email: &str,
    ) -> impl Future<Output = Result<(), Status>> + Send;

    /// Whether the handler has to commit.
    fn is_of_handler(writes: &Self::Writes) -> bool;

    /// Commits a transaction of the handler; gives that of a call back.
    fn end(writes: Self::Writes) -> impl Future<Output = Result<(), Status>> + Send;
}
