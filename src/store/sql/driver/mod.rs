//! Drivers: how [`SqlStore`](super::SqlStore) reaches PostgreSQL.
//!
//! The protocol is the store's: its statements, their parameters, the reading of rows, attempts, time limits. A driver is
//! a client library with its pool, and says how a statement runs on a connection. `PostgresStore` (feature `postgres`)
//! is the store on tokio-postgres and deadpool. A driver of your own has four parts:
//!
//! | part | is |
//! |---|---|
//! | [`Driver`], [`ConnectionPool`] | the client library, and its pool |
//! | [`Connection`] | a connection of the pool; its rows are [`Row`]s, its parameters [`Value`]s |
//! | [`DriverError`], [`AcquireError`] | what an error says: the store decides by it whether a statement may have been carried out |
//! | [`Session`] | a transaction, as the handler sees it; [`Exclusive`] is one for every driver whose statements borrow the connection mutably, and [`ExclusiveTransaction`] its handle; [`Levels`] keeps track of savepoints for others |
//!
//! It has to pass the tests in `store::conformance` (feature `conformance`).

mod connection;
#[expect(clippy::module_inception, reason = "the trait itself")]
mod driver;
mod error;
mod idle_closing;
mod levels;
mod pool;
mod session;
pub(super) mod transaction_error;
mod usage;
mod value;

pub use self::{
    connection::{Connection, Row, Statement, cancel_in_time},
    driver::Driver,
    error::{AcquireError, AcquireErrorKind, DriverError, is_conflict, is_of_network},
    idle_closing::IdleClosing,
    levels::{Level, Levels},
    pool::ConnectionPool,
    session::Session,
    usage::{InUse, Usage},
    value::Value,
};
pub(super) use self::{
    error::{class, may_go},
    value::FromValue,
};
#[cfg(feature = "testing")]
#[doc(hidden)]
pub use super::statements::statements;
pub use super::{
    handles::{Exclusive, ExclusiveDriver, ExclusiveTransaction, Guard, Owned},
    transaction::InTransaction,
};
