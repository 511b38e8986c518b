//! Stores of records: the trait [`Store`], and two implementations.
//!
//! `PostgresStore` (feature `postgres`) keeps records in PostgreSQL. `SqlStore` (feature `sql`) is the same on any driver (`driver`).
//! [`MemoryStore`] keeps them in the process, for
//! tests and first steps. A store of your own implements [`Store`] and has to pass the tests in `conformance` (feature
//! `conformance`).

#[cfg(feature = "conformance")]
pub mod conformance;

mod erased;
mod error;
#[cfg(feature = "sql")]
pub(crate) mod files;
mod look_up;
mod memory;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
mod resource;
mod schema;
mod server_clock;
mod session;
mod settings;
#[cfg(feature = "sql")]
mod sql;
mod status_from_store;
#[expect(clippy::module_inception, reason = "the trait itself")]
mod store;
mod transaction;
mod types;

/// The transitions of the store in memory, for other databases of tests.
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod memory_transitions {
    pub use super::memory::{Look, Record};
}

pub use protobuf_canonical::{RequestHash, RequestHashes};
// For the errors of stores in other crates.
#[doc(hidden)]
pub use tonic_idempotency_wire::debug_tells;

#[cfg(feature = "postgres")]
pub use self::postgres::{
    CopyInSink, CopyOutStream, Deadpool, DeadpoolConnection, OwnedTransaction, PostgresStore, PreparedStatements,
    Savepoint, TransactionError, TransactionSession,
};
#[cfg(feature = "sql")]
pub(crate) use self::schema::literal;
#[cfg(feature = "sql")]
pub use self::sql::{SetupProblem, SqlStore, TransactionErrorKind, VerifyError, driver};
pub(crate) use self::{erased::DynStore, session::InvalidSetting, settings::STATUS_TIMEOUT};
pub use self::{
    error::{StoreError, StoreErrorKind},
    look_up::{KeyRecord, KeyState, LookUp},
    memory::MemoryStore,
    resource::{ResourceType, ResourceTypes},
    schema::{InvalidIdentifier, Schema},
    server_clock::ServerClock,
    session::{CallSession, SessionSettings},
    settings::StoreSettings,
    status_from_store::StatusFromStore,
    store::Store,
    transaction::{
        BeginOutcome, CommitOutcome, RollBackOutcome, StoreTransaction, TransactionCapacity, TransactionOptions,
        TransactionTimes,
    },
    types::{
        AbandonOutcome, AbandonedKey, AbandonedQuery, Claim, ClaimOutcome, CompleteOutcome, Completion, ExtendOutcome,
        ReleaseOutcome, Replay, Reservation, StatusError, StoredMessage, StoredResponse,
    },
};
