//! `tonic-idempotency` on Redis and Valkey: the records of **reserved** procedures, on one server, with Sentinel, or in a cluster.
//!
//! ```no_run
//! # fn layer(descriptors: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
//! use tonic_idempotency::IdempotencyLayer;
//! use tonic_idempotency_redis::{Durability, RedisStore, redis};
//!
//! // Default: one server, and an answer as soon as that has written.
//! let store = RedisStore::single(redis::Client::open("redis://127.0.0.1/")?);
//!
//! // Customised: one replica has written, too.
//! let store = store.durability(Durability::replicas(1)).prefix("orders")?;
//! let layer = IdempotencyLayer::builder(descriptors).store(store).build()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `cluster` (default) | `RedisStore::cluster`: a Redis Cluster |
//! | `sentinel` (default) | `RedisStore::sentinel`: a server that Sentinel watches and replaces |
//! | `tls` | `rediss://`, by rustls |
//!
//! # When not to use it
//!
//! **Redis can lose what it has confirmed.** Its replication is asynchronous: a failover may lose the last writes of the server that
//! died, and [`Durability`] makes that rarer, not impossible. A call whose record is lost runs again when it is retried. If an effect
//! must not happen twice, keep the records in PostgreSQL, best in the transaction of the effect.
//!
//! A store on Redis is for reserved procedures whose effect is somewhere else anyway, and whose duplicates a
//! [reconciler](tonic_idempotency::policy::Reconciler), or the other system itself, can find.
//!
//! # What it has, and what it refuses
//!
//! | of `PostgresStore` | here |
//! |---|---|
//! | reserved mode, leases, fencing tokens, reconcilers, recovery, look-ups | the same |
//! | transactional mode | refused when the layer is built: no transaction spans Redis and the handler's database |
//! | the status of created resources | of a [`status_resolver`](tonic_idempotency::layer::IdempotencyLayerBuilder::status_resolver); a layer that needs one and has none is refused when it is built |
//! | foreign keys to the created resources | none: a record outlives its resource |
//! | row-level security | none: whoever reaches the server reads all records |
//! | the release of keys by operators | none: no role of a server could be kept from it |
//! | the sweeper | not needed: each record has a time to live |
//!
//! # How it works
//!
//! Each record is one hash, with the key `prefix:{owner:key}`: one key of a cluster, in one slot. Each transition of a record is one
//! script on that key, which compares the fencing token and writes in one step, by the server's clock. Scripts are called by their
//! hash, and sent once more with their text if the server does not have them.
//!
//! The server has to be Redis 7.0 or later, or Valkey, and must not evict: [`RedisStore::verify`] checks that, and the first claim
//! that it does not evict.

mod abandoned;
mod answer;
mod command_runner;
mod connection;
mod durability;
mod error;
mod late_claims;
mod prefix;
mod scripts;
mod store;
mod verify;

#[doc(no_inline)]
pub use redis;

pub use self::{
    durability::Durability,
    prefix::InvalidPrefix,
    store::RedisStore,
    verify::{SetupProblem, VerifyError},
};
