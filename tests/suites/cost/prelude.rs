//! The names that most files of this suite use.

pub(crate) use futures_util::FutureExt as _;
pub(crate) use http::{Request, Response};
pub(crate) use http_body_util::Full;
pub(crate) use prost::Message as _;
pub(crate) use protobuf_canonical::Canonical;
pub(crate) use tonic::body::Body;
pub(crate) use tonic_idempotency::{IdempotencyLayer, UserId};
pub(crate) use tonic_idempotency_tests::shop::{Counting, FILE_DESCRIPTOR_SET, proto::CreateOrderRequest};
pub(crate) use tower_layer::Layer as _;
pub(crate) use uuid::Uuid;

pub(crate) use crate::harness::{CREATE, Server, bare, call, runtime};
