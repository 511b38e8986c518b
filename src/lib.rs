//! Idempotency keys for [tonic](https://docs.rs/tonic) services, over gRPC, gRPC-Web and Connect, with their state in PostgreSQL under
//! row-level security.
//!
//! ```
//! use tonic_idempotency::{IdempotencyLayer, policy::Procedure, store::MemoryStore};
//! use tower::ServiceExt as _;
//! use tower_layer::Layer as _;
//!
//! # use std::sync::atomic::{AtomicUsize, Ordering};
//! # use bytes::Bytes;
//! # use http_body_util::{Full, StreamBody};
//! # use prost::Message as _;
//! # use prost_types::{FileDescriptorProto, FileDescriptorSet, MethodDescriptorProto, ServiceDescriptorProto};
//! # use tonic::body::Body;
//! # use tonic_idempotency::UserId;
//! # static ORDERS: AtomicUsize = AtomicUsize::new(0);
//! # async fn create_order(_: http::Request<Body>) -> Result<http::Response<Body>, std::convert::Infallible> {
//! #     ORDERS.fetch_add(1, Ordering::SeqCst);
//! #     let trailers = http::HeaderMap::from_iter([("grpc-status".parse().unwrap(), "0".parse().unwrap())]);
//! #     let frames = [http_body::Frame::data(Bytes::from_static(&[0; 5])), http_body::Frame::trailers(trailers)];
//! #     let frames = futures_util::stream::iter(frames.map(Ok::<_, std::convert::Infallible>));
//! #     Ok(http::Response::new(Body::new(StreamBody::new(frames))))
//! # }
//! # fn call(key: &str) -> http::Request<Body> {
//! #     http::Request::post("/shop.v1.Orders/CreateOrder")
//! #         .header("content-type", "application/grpc")
//! #         .header("idempotency-key", key)
//! #         .extension(UserId::new(uuid::Uuid::from_u128(1)))
//! #         .body(Body::new(Full::new(Bytes::from_static(&[0; 5]))))
//! #         .unwrap()
//! # }
//! # fn descriptors() -> Vec<u8> {
//! #     let message = prost_types::DescriptorProto { name: Some("Order".to_owned()), ..Default::default() };
//! #     let method = MethodDescriptorProto {
//! #         name: Some("CreateOrder".to_owned()),
//! #         input_type: Some(".shop.v1.Order".to_owned()),
//! #         output_type: Some(".shop.v1.Order".to_owned()),
//! #         ..Default::default()
//! #     };
//! #     let service = ServiceDescriptorProto { name: Some("Orders".to_owned()), method: vec![method], ..Default::default() };
//! #     let file = FileDescriptorProto {
//! #         name: Some("shop.proto".to_owned()),
//! #         package: Some("shop.v1".to_owned()),
//! #         message_type: vec![message],
//! #         service: vec![service],
//! #         syntax: Some("proto3".to_owned()),
//! #         ..Default::default()
//! #     };
//! #     FileDescriptorSet { file: vec![file] }.encode_to_vec()
//! # }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let descriptors = descriptors();
//! // The descriptors of your services, and a store: `PostgresStore` where it counts.
//! let idempotency = IdempotencyLayer::builder(descriptors.as_slice())
//!     .store(MemoryStore::new())
//!     .procedure(Procedure::builder("/shop.v1.Orders/CreateOrder")) // or the option in the .proto file
//!     .build()?;
//! // With tonic: `Server::builder().layer(authentication).layer(idempotency)`.
//! let orders = idempotency.layer(tower::service_fn(create_order));
//!
//! let first = orders.clone().oneshot(call("8e03978e-40d5-43dd-bc93-6894a57f9324")).await?;
//! let retry = orders.clone().oneshot(call("8e03978e-40d5-43dd-bc93-6894a57f9324")).await?;
//!
//! assert_eq!(ORDERS.load(Ordering::SeqCst), 1); // the retry did not create again
//! assert_eq!(first.headers()["idempotency-status"], "completed");
//! assert_eq!(retry.headers()["idempotent-replayed"], "true");
//! # Ok(())
//! # }
//! ```
//!
//! > At-least-once delivery + this layer = exactly-once effect. For one user and one key, the handler's effect happens at
//! > most once while the record lives, and every retry of a call that succeeded gets that call's response.
//!
//! A procedure's [`Mode`](policy::Mode) decides how far that goes. A transactional handler writes with the `Transaction` that
//! it is given: the record is committed with its effect, and the promise holds whatever crashes. A reserved handler writes
//! anywhere; if its process dies in between, the procedure's [`LeasePolicy`](policy::LeasePolicy) decides.
//!
//! # Outcomes
//!
//! | the call | what the caller gets |
//! |---|---|
//! | to a procedure that is not opted in, or without a store | the handler's answer: the layer passes the call through; or `INVALID_ARGUMENT` ([`UnprotectedKeyPolicy`](policy::UnprotectedKeyPolicy)) |
//! | without a key, in the header or in the message ([`key_field`](policy::ProcedureBuilder::key_field)) | the handler's answer, or `INVALID_ARGUMENT` ([`KeyPolicy`](policy::KeyPolicy)) |
//! | with a malformed key, or with different keys in header and message | `INVALID_ARGUMENT` |
//! | without an authenticated user | `UNAUTHENTICATED`, or the handler's answer and a warning in the log ([`UserPolicy`](policy::UserPolicy)) |
//! | without a scope, where each call needs one | `UNAUTHENTICATED` ([`ScopePolicy`](policy::ScopePolicy)) |
//! | while the store cannot be asked | `UNAVAILABLE`, or the handler's answer and a warning in the log ([`StorePolicy`](policy::StorePolicy), [`Mode`](policy::Mode)) |
//! | while the store fails in another way, or a limit is reached | `ABORTED`, `INTERNAL`, `RESOURCE_EXHAUSTED` or `UNAVAILABLE` ([`StoreErrorKind`](store::StoreErrorKind)) |
//! | the first with its key | the handler's answer, `idempotency-status: completed`, or `processing` if it created a resource with [work behind it](status) |
//! | with the key of another procedure or request | `INVALID_ARGUMENT` |
//! | while the first with its key is running | `ABORTED`, retry later; or it waits ([`InProgressPolicy`](policy::InProgressPolicy)) |
//! | after the first with its key succeeded | its response and metadata ([`ReplayedMetadata`](policy::ReplayedMetadata)), `idempotent-replayed: true`, and the newest `idempotency-status` |
//! | after the first with its key failed | the handler's answer: the key was free again; or the same error ([`FinalErrors`](policy::FinalErrors)) |
//! | after the lease of the first ended without an outcome | the handler's answer, the answer of the [`Reconciler`](policy::Reconciler), or `FAILED_PRECONDITION` ([`LeasePolicy`](policy::LeasePolicy)) |
//! | whose transaction lost against another | `ABORTED`, retry |
//! | while the layer is shutting down | `UNAVAILABLE`, retry elsewhere |
//!
//! # Modules
//!
//! | module | holds |
//! |---|---|
//! | [`layer`] | the builder of the [`IdempotencyLayer`], the service that it makes, authenticated callers, the report of a shutdown |
//! | [`policy`] | the procedures that take keys, and their policies |
//! | [`run`] | the same guarantee for messages of a queue, jobs and webhooks |
//! | [`rejection`] | the reasons why a call is refused |
//! | [`status`] | the status of the asynchronous work behind a created resource |
//! | [`store`] | the stores, and the contract of a store of your own |
//! | [`operations`] | the service by which callers look up their calls, off by default |
//! | [`maintenance`] | the sweep of expired records, the recovery of calls without an outcome |
#![cfg_attr(feature = "sql", doc = "| [`migrations`] | the table in PostgreSQL, and the grants of the API's role |")]
#![cfg_attr(feature = "connect", doc = "| [`connect`] | the Connect protocol for tonic servers |")]
#![cfg_attr(feature = "seal", doc = "| [`seal`] | records that only the holder of a key reads |")]
#![cfg_attr(feature = "testing", doc = "| [`testing`] | tests of your own service |")]
//! | [`proto`] | the option `(idempotency.v1.procedure)` for `.proto` files |
//! | [`telemetry`] | the log lines, spans and metrics |
//!
//! Handlers find the [`IdempotencyKey`] and the [`Execution`] in the extensions of their request. In transactional mode `Transaction::from_request`
//! takes the `Transaction` from there.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `postgres` (default) | `PostgresStore`, on tokio-postgres and deadpool; a service on sqlx, diesel or SeaORM leaves it out, and takes the crate for that |
//! | `sql` | `migrations`, and `SqlStore` for the authors of drivers; in `postgres` |
//! | `connect` | the Connect protocol, and the layer around services of `connectrpc` |
//! | `gzip`, `deflate`, `zstd` | messages in these compressions |
//! | `json` | [`run`] with requests and responses in JSON |
//! | `seal` | responses that only the holder of a key reads |
//! | `testing`, `conformance` | tests of your own service, or store |
//!
//! # Protocols
//!
//! A key is the same key in every protocol and encoding: the hash is of the message, and records are neutral.
//!
//! | the caller speaks | in front of a tonic server | around a service of `connectrpc`'s own |
//! |---|---|---|
//! | gRPC | nothing | nothing (feature `connect`) |
//! | gRPC-Web | `tonic_web::GrpcWebLayer` | nothing, for its binary form |
//! | Connect, unary: binary, JSON, GET | `connect::ConnectLayer` (feature `connect`) | nothing |
//!
//! In any other protocol, a call with a key is refused: the layer cannot read its message, and so cannot tell whether it is the
//! same request.
//!
//! # Disconnects
//!
//! tonic drops a handler's future wherever it stands when the client disconnects, resets its stream or runs into its deadline.
//! A call with a key therefore runs in a task of its own, to its end (a transactional call can be rolled back instead:
//! [`DisconnectPolicy`](policy::DisconnectPolicy)). [`IdempotencyLayer::shutdown`] waits for these tasks before the process ends. A
//! panic of the handler is caught in that task, and answered with `INTERNAL`.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

#[cfg(feature = "connect")]
pub mod connect;
pub mod layer;
pub mod maintenance;
#[cfg(feature = "sql")]
pub mod migrations;
pub mod operations;
pub mod policy;
pub mod rejection;
pub mod run;
#[cfg(feature = "seal")]
pub mod seal;
pub mod status;
pub mod store;
pub mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;

mod blocking;
mod build_error;
mod caller;
mod descriptors;
mod duration;
mod editions;
mod engine;
mod execution;
mod future;
mod grpc;
mod key;
mod nesting;
mod pause;
#[cfg(not(feature = "seal"))]
mod seal;
mod settlement;

#[cfg(feature = "postgres")]
pub use self::store::postgres::Transaction;
pub use self::{
    caller::{Caller, OwnerId, Scope, UserId},
    execution::Execution,
    key::{IdempotencyKey, KeyId},
    layer::layer::IdempotencyLayer,
};
pub use tonic_idempotency_wire::proto;
