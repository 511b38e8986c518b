//! The tests that every driver of the store in PostgreSQL must pass, beside those of its own.
//!
//! A driver implements [`Stack`], and [`driver_tests!`] defines the tests, each in its module. `tests/drivers/sqlx` is an
//! example. The tests need PostgreSQL and PgBouncer, as `tests/README.md` says.
//!
//! | module | its tests are about |
//! |---|---|
//! | `conformance_on_a_server`, `conformance_behind_pgbouncer` | the store: the conformance suite |
//! | [`atomicity`] | effects and records, committed together or not at all |
//! | [`bouncer`] | transactional mode behind PgBouncer |
//! | [`connections`] | one connection for each call, clean when it returns |
//! | [`cuts`] | connections that are cut or fall silent at any moment |
//! | [`disconnects`] | clients that hang up |
//! | [`duplicates`] | calls with one key at once |
//! | [`errors`] | the kinds that the store gives to the library's errors |
//! | [`failover`] | failovers, and standbys |
//! | [`functions`] | functions, on connections with a transaction that was left open |
//! | [`handle`] | the handler's handle |
//! | [`isolation`] | isolation levels, conflicts |
//! | [`late_attempts`] | attempts that arrive after their call has abandoned them |
//! | [`lost_answers`] | a COMMIT whose answer is lost |
//! | [`operations`] | operations that are no gRPC calls |
//! | [`outages`] | servers that are away or full |
//! | [`owned`] | transactions without a call |
//! | [`reruns`] | calls whose transaction loses, and which run again |
//! | [`reserved`] | reserved mode, and stores that cannot be asked |
//! | [`round_trips`] | how many round trips to the server calls take |
//! | [`savepoints`] | nested transactions |
//! | [`session`] | users and settings |
//! | [`timeouts`] | handlers that take too long |
//! | [`without_key`] | calls without a key or without a user |

#![expect(missing_docs, reason = "the name of a test says what it tests")]

pub mod atomicity;
pub mod bouncer;
mod conformance;
pub mod connections;
pub mod cuts;
mod database;
pub mod disconnects;
pub mod duplicates;
pub mod errors;
pub mod failover;
pub mod functions;
pub mod handle;
pub mod isolation;
pub mod late_attempts;
pub mod lost_answers;
pub mod operations;
pub mod outages;
pub mod owned;
mod pool;
pub mod reruns;
pub mod reserved;
pub mod round_trips;
mod run;
pub mod savepoints;
pub mod sequences;
mod service;
pub mod session;
mod stack;
pub mod timeouts;
pub mod without_key;

#[doc(hidden)]
pub use tonic_idempotency::store::conformance::conformance_tests;

#[doc(hidden)]
pub use self::run::{assert_known, run};
pub use self::{
    conformance::Stores,
    database::{
        DEADLOCK, INSERT, NOTES, SERIALIZATION_FAILURE, all_have_ended, names, open_transactions, rows, until_statement,
    },
    pool::{
        PoolConnection, all_are_back, assert_clean, behind_bouncer, bouncer_settings, claim, execute_on_one, fill,
        in_use, new_claim, patient, pool, pool_at, pool_through, pool_through_proxy, pool_with, store, take, text,
        unchecked_pool_with,
    },
    round_trips::RoundTrips,
    service::{CREATE_PROJECT, Call, Seen, Service, reason, status},
    stack::{Connections, End, PoolOptions, Stack, Step},
};
