//! The library that the integration tests share.

pub mod catalog;
mod database;
pub mod fuzz;
mod lines;
pub mod orders;
mod program;
pub mod rules;
pub mod shop;
mod until;

pub use database::{
    API_LOGIN, API_ROLE, Database, KNOWN_TO_PLANNER, OPERATOR, OUTBOX_POLICY, User, migrate, partition, partitions,
    pool, rows_read, through_proxy, uuid_of, with_max_batch,
};
pub use lines::Lines;
pub use program::{binary, example};
pub use tcp_proxy::Proxy;
use tonic_idempotency::policy::{Policies, StorePolicy};
pub use until::until;

/// Compiles the code of the documents. The package `page-tests` compiles that of the README, `docs/client.md` and `docs/drivers.md`.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../docs/callers.md")]
    mod callers {}
    #[doc = include_str!("../../docs/connect.md")]
    mod connect {}
    #[doc = include_str!("../../docs/consumers.md")]
    mod consumers {}
    #[doc = include_str!("../../docs/database.md")]
    mod database {}
    #[doc = include_str!("../../docs/keys.md")]
    mod keys {}
    #[doc = include_str!("../../docs/modes.md")]
    mod modes {}
    #[doc = include_str!("../../docs/operations.md")]
    mod operations {}
    #[doc = include_str!("../../docs/outcomes.md")]
    mod outcomes {}
    #[doc = include_str!("../../docs/patterns.md")]
    mod patterns {}
    #[doc = include_str!("../../results/large-tables.md")]
    mod large_tables {}
    #[doc = include_str!("../../docs/settings.md")]
    mod settings {}
}

/// The default policies, but reserved calls run unprotected while the store cannot be asked.
pub fn proceeding() -> Policies {
    Policies { on_store_unavailable: StorePolicy::Proceed, ..Policies::default() }
}
