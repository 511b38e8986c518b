//! Idempotency keys for [tonic](https://docs.rs/tonic) services, over gRPC, gRPC-Web and Connect, with their state in PostgreSQL under
//! row-level security.
//!
//! > At-least-once delivery + this layer = exactly-once effect. For one user and one key, the handler's effect happens at
//! > most once while the record lives, and every retry of a call that succeeded gets that call's response.
//!
//! Where the handler's writes and the record meet is a procedure's [`Mode`]: a transactional handler writes with the
//! [`Transaction`] that it is given, and the promise holds whatever crashes; a reserved one writes wherever it likes, and where
//! its process dies its [`LeasePolicy`] decides.
//!
//! Start with [`IdempotencyLayer`]; it takes a [`PostgresStore`] and the descriptors of the services, and finds in them the
//! procedures that are opted in ([`policy`]). The README has the ten lines, and the sample
//! (`cargo run --example organization`) a whole service.
//!
//! # What becomes of a call
//!
//! | the call | what the caller gets |
//! |---|---|
//! | to a procedure that is not opted in, or with no store configured | the handler's answer, the layer does not look |
//! | without a key | the handler's answer, or `INVALID_ARGUMENT` ([`KeyPolicy`]) |
//! | with a malformed key | `INVALID_ARGUMENT` |
//! | without an authenticated user | the handler's answer and a warning in the log, or `UNAUTHENTICATED` ([`UserPolicy`]) |
//! | while the store is away | the handler's answer and a warning in the log, or `UNAVAILABLE` ([`StorePolicy`], [`Mode`]) |
//! | the first with its key | the handler's answer, `idempotency-status: processing` |
//! | with a key of another procedure or request | `INVALID_ARGUMENT` |
//! | while the first with its key runs | `ABORTED`, retry later; or it waits ([`InProgressPolicy`]) |
//! | after the first with its key succeeded | its response with the handler's metadata ([`ReplayedMetadata`]), `idempotent-replayed: true`, and the newest `idempotency-status` |
//! | after the first with its key failed | the handler's answer: the key was free again; or the same error ([`FinalErrors`]) |
//! | after the lease of the first ended without an outcome | the handler's answer, what the [`Reconciler`] found, or `FAILED_PRECONDITION` ([`LeasePolicy`]) |
//! | whose transaction lost against another | `ABORTED`, retry |
//! | while the layer shuts down | `UNAVAILABLE`, retry elsewhere |
//!
//! What the layer refuses is in the docs of [`Reason`], the life of a record in those of [`Store`], what operators see in
//! [`telemetry`].
//!
//! # Protocols
//!
//! A key is one key, whatever protocol and encoding its calls come in: the hash is of the message, and what is stored is neutral.
//!
//! | the caller speaks | in front of a tonic server | around a service of `connectrpc`'s own |
//! |---|---|---|
//! | gRPC | nothing | nothing (feature `connect`) |
//! | gRPC-Web | `tonic_web::GrpcWebLayer` | nothing, for its binary form |
//! | Connect, unary: binary, JSON, GET | `connect::ConnectLayer` (feature `connect`) | nothing |
//!
//! In another protocol, a call with a key runs unprotected, with a warning; it is refused where its procedure is transactional or
//! refuses calls while the store is away.
//!
//! # Hang-ups
//!
//! tonic drops a handler's future wherever it stands when the client hangs up, resets its stream or runs into its deadline.
//! A call with a key therefore runs in a task of its own that goes on to its end (a transactional one may be rolled back
//! instead: [`DisconnectPolicy`]). [`IdempotencyLayer::shutdown`] waits for these tasks before the process ends. A panic of the
//! handler is caught in that task, and answered with `INTERNAL`.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

#[cfg(feature = "connect")]
pub mod connect;
pub mod layer;
pub mod maintenance;
#[cfg(feature = "postgres")]
pub mod migrations;
pub mod policy;
pub mod proto;
pub mod rejection;
pub mod status;
pub mod store;
pub mod telemetry;

mod build_error;
mod descriptors;
mod engine;
mod execution;
mod future;
mod grpc;
mod key;
mod user;

#[cfg(feature = "postgres")]
pub use self::store::postgres::Transaction;
pub use self::{execution::Execution, key::IdempotencyKey, layer::layer::IdempotencyLayer, user::UserId};
