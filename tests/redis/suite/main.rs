//! `tonic-idempotency-redis` on real servers: one, with Sentinel, and a cluster. Each test has a prefix of its own, or a server.

mod conformance;
mod failover;
mod layer;
mod model;
mod outages;
mod permissions;
mod record;
mod refusals;
mod scripts;
mod search;
mod servers;
mod setup;
mod shop;
mod sizes;
mod slots;
mod time_to_live;
mod tls;
mod until;
mod waiting;
