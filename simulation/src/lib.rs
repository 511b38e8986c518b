//! The product's own code under deterministic simulation: the real layer, engine, store and client, in one thread, on a clock, a network and
//! a database that are simulated and driven by one seed.
//!
//! | | is |
//! |---|---|
//! | [`plan`] | all that a seed decides: settings, operations, faults |
//! | [`world`] | time, randomness, hosts and the network between them |
//! | [`database`] | the statements of the store, in memory |
//! | [`server`], [`service`], [`consumer`], [`reconciler`] | the product's layer around a service, and its operations |
//! | [`go`] | a server with the Go interceptor |
//! | [`keys`] | the keys that servers seal with |
//! | [`job`] | the asynchronous work behind what operations create |
//! | [`client`], [`journal`], [`network`] | those who call it, and what is in between |
//! | [`ledger`], [`audit`] | what happened, and which promises it breaks |
//! | [`sometimes`] | what has to happen in many runs |
//! | [`run`](mod@run), [`mod@shrink`], [`swarm`] | one seed; a failing one with less; many |

pub mod audit;
pub mod client;
pub mod consumer;
pub mod database;
pub mod go;
mod headers;
pub mod job;
pub mod journal;
pub mod kept;
pub mod keys;
pub mod ledger;
mod left;
pub mod network;
pub mod panics;
pub mod plan;
pub mod reconciler;
pub mod run;
pub mod server;
pub mod service;
pub mod shrink;
pub mod sometimes;
pub mod strike;
pub mod swarm;
mod until;
pub mod world;
