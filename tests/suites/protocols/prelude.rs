//! The names that most files of this suite use.

pub(crate) use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

pub(crate) use base64::Engine as _;
pub(crate) use bytes::Bytes;
pub(crate) use http::Method;
pub(crate) use http_body_util::BodyExt as _;
pub(crate) use prost::Message as _;
pub(crate) use serde_json::Value;
pub(crate) use tokio::{net::TcpStream, time::timeout};
pub(crate) use tonic::{Code, body::Body};
pub(crate) use tonic_idempotency::{
    IdempotencyLayer, connect::ConnectLayer, policy::Mode, rejection::Reason, store::MemoryStore,
};
pub(crate) use tonic_idempotency_tests::{
    Database,
    catalog::{
        FILE_DESCRIPTOR_SET,
        proto::{Created, Item},
    },
    until,
};
pub(crate) use tonic_types::StatusExt as _;
pub(crate) use tower::{Service, ServiceBuilder};
pub(crate) use tower_layer::Layer as _;
pub(crate) use uuid::Uuid;

pub(crate) use crate::{
    messages::{bytes, text},
    protocol::{Outcome, Protocol, framed},
    server::{Kind, Server, over_each, serve},
};
