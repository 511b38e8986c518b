//! The Connect protocol for gRPC services: turns unary Connect calls into gRPC ones, and the answers back.
//!
//! A tonic server speaks gRPC alone. [`ConnectLayer`] in front of it answers Connect as well, on the same port: unary calls
//! with binary or JSON messages, and GET for procedures without side effects. What is behind it, the idempotency layer
//! included, sees gRPC.
//!
//! | the request | goes to |
//! |---|---|
//! | `application/grpc…`, gRPC-Web included | the inner service, untouched |
//! | to a path that is no procedure of the descriptors | the inner service, untouched |
//! | `OPTIONS` | the inner service, untouched: CORS belongs in front |
//! | `POST` with `application/json` or `application/proto` | the inner service, as gRPC |
//! | `GET` to a procedure with `idempotency_level = NO_SIDE_EFFECTS` | the inner service, as gRPC |
//! | of another method or content type | answered with 405 or 415 |
//! | to a streaming procedure | answered with `unimplemented`: streams are for gRPC and gRPC-Web |
//!
//! | of a Connect call | becomes |
//! |---|---|
//! | `connect-timeout-ms` | `grpc-timeout`; when it has passed, `deadline_exceeded`; a call with a key goes on to its end |
//! | `content-encoding`, `accept-encoding` | undone and done here, with the encodings whose features are enabled |
//! | JSON | binary, by the descriptors |
//! | other headers | metadata, as they are |
//! | response metadata | headers |
//! | trailers | headers with the prefix `trailer-` |
//! | a status with its details | an error in JSON, under its HTTP status; details of known types are readable in `debug` |
//!
//! A JSON message has to be exact: a field that its type does not have, one given twice, a number that does not fit is
//! `invalid_argument`. Otherwise two requests that differ could be one, and share an idempotency key. Numbers are read as they are
//! written, so that the same message is the same request in JSON and in binary.
//!
//! Built on [`connectrpc`](https://docs.rs/connectrpc), which holds the protocol's details. A service of its own, around
//! which the idempotency layer is put, needs no `ConnectLayer`: calls with a key, and all to transactional procedures, reach it
//! as gRPC with binary messages, whatever they came as; the others reach it as they came. Its handlers find what a call has to
//! tell them in their `RequestContext`: [`Execution::from_extensions`](crate::execution::Execution::from_extensions), and where the store is
//! PostgreSQL `Transaction::from_extensions`, whose errors `?` turns into a `ConnectError`.
//!
//! A timeout that such a service has of its own (`ConnectRpcService::with_deadline_policy`) drops the handler wherever it stands, and
//! its error frees the key: where that is not harmless, give it none, or have the handler say `effect_committed`.

mod bridge;
mod error;
mod layer;
mod methods;
mod request;
mod response;
mod service;
mod translator;

pub(crate) use self::translator::{Settings, Translated, Translator};
pub use self::{layer::ConnectLayer, service::Connect};
