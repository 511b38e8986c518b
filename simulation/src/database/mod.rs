//! PostgreSQL in memory, as far as the store's statements need it: [`Database`], and its driver, [`Pool`].
//!
//! The store is the product's own, `SqlStore<Pool>`. A statement is known by its exact text, and carried out with the transitions of the
//! store in memory; what the SQL functions do beyond these is written here, and says so. A statement happens at one instant, in a
//! transaction of its own or in that of its session, and waits for the rows and numbers that other transactions have written: then it
//! goes on where it was, by the clock that it has read before, and holds what it has written meanwhile.
//!
//! It leaves out: isolation levels other than READ COMMITTED, row-level security, the application's settings, triggers and
//! foreign keys.

mod connection;
mod driver;
mod error;
mod hold;
mod pool;
mod reserved;
mod row;
mod server;
mod session;
mod shared;
mod state;
mod statement;
mod stored_row;
mod transaction;
mod transactional;
mod trouble;
mod upkeep;
mod wire;

pub use self::{
    connection::Connection,
    hold::RowHold,
    pool::Pool,
    row::Row,
    server::Database,
    session::{KEEPALIVES, SILENCE},
    state::{Loss, Lost, Open, Outcome, StoredRecord},
    statement::resource_types,
    stored_row::Effect,
    trouble::Trouble,
};

/// The store on this database.
pub type SimulatedStore = tonic_idempotency::store::SqlStore<Pool>;
