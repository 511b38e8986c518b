//! The Connect protocol for gRPC services: translates unary Connect calls into gRPC calls, and the responses back.
//!
//! A tonic server supports only gRPC. [`ConnectLayer`] in front of it adds Connect on the same port: unary calls with
//! binary or JSON messages, and GET for procedures without side effects. Everything behind it, including the
//! idempotency layer, gets gRPC.
//!
//! | the request | goes to |
//! |---|---|
//! | `application/grpc…`, including gRPC-Web | the inner service, unchanged |
//! | `OPTIONS` | the inner service, unchanged: put a CORS layer in front of this one |
//! | to a path that is not a procedure of the descriptors, and names Connect | refused with 404 and `unimplemented` |
//! | to such a path, and does not name Connect | the inner service, unchanged |
//! | `POST` with `application/json` or `application/proto` | the inner service, as gRPC |
//! | `GET` to a procedure with `idempotency_level = NO_SIDE_EFFECTS` | the inner service, as gRPC |
//! | with another method or content type | refused with 405 or 415 |
//! | to a streaming procedure | refused with `unimplemented`: use gRPC or gRPC-Web |
//!
//! A request names Connect with the header `connect-protocol-version`, with `connect=v1` in the query of a `GET`, or
//! with the content type `application/proto` or `application/connect+…`. One layer therefore has to know the
//! descriptors of all services behind it that are called over Connect.
//!
//! | part of a Connect call | becomes |
//! |---|---|
//! | `connect-timeout-ms` | `grpc-timeout`; after this time the caller gets `deadline_exceeded`, and a call with a key goes on to its end |
//! | `content-encoding`, `accept-encoding` | decompressed and compressed here, in the encodings whose features are enabled |
//! | JSON | binary, according to the descriptors |
//! | other headers | metadata, unchanged |
//! | response metadata | headers |
//! | trailers | headers with the prefix `trailer-` |
//! | a status with its details | an error in JSON, under its HTTP status; details of known types are readable in `debug` |
//!
//! JSON messages are parsed strictly: an unknown field, a duplicate field, or a number out of range is
//! `invalid_argument`. Otherwise two different requests could become the same message, and share an idempotency key.
//! Numbers are parsed exactly, so that a message is the same request in JSON and in binary.
//!
//! The protocol is implemented by [`connectrpc`](https://docs.rs/connectrpc). A service of `connectrpc` with the
//! idempotency layer around it does not need a `ConnectLayer`. Its calls with a key, and all calls to transactional
//! procedures, reach it as gRPC with binary messages, whatever their protocol. Other calls reach it unchanged. Its
//! handlers get the call's state from their `RequestContext`: with
//! [`Execution::from_extensions`](crate::Execution::from_extensions), and with `PostgresStore` also with
//! `Transaction::from_extensions`. `?` converts the errors of the transaction to `ConnectError`.
//!
//! A timeout of such a service (`ConnectRpcService::with_deadline_policy`) drops the handler at any point, and the
//! resulting error frees the key. If that can do harm, set no timeout, or call `effect_committed` in the handler.

mod bridge;
mod compression;
mod error;
mod layer;
mod methods;
mod request;
mod response;
mod service;
mod timed_body;
mod translator;

pub(crate) use self::translator::{Settings, TranslatedService, Translator};
pub use self::{layer::ConnectLayer, service::Connect};
