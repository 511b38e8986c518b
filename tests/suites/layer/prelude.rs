//! The names that most files of this suite use.

pub(crate) use std::{
    collections::{HashMap, HashSet},
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

pub(crate) use bytes::Bytes;
pub(crate) use http::HeaderMap;
pub(crate) use prost::Message as _;
pub(crate) use prost_reflect::DescriptorPool;
pub(crate) use tokio::{
    task::{JoinHandle, JoinSet},
    time::Instant,
};
pub(crate) use tonic::{
    Code, Request, Status, body::Body, codec::CompressionEncoding, server::NamedService,
    service::interceptor::InterceptedService, transport::Channel,
};
pub(crate) use tonic_idempotency::{
    Caller, IdempotencyLayer,
    layer::{BuildError, IdempotencyLayerBuilder},
    policy::{
        EffectPolicy, ForeignPolicy, InProgressPolicy, KeyFormat, LeasePolicy, Limit, Limits, Mode, Policies,
        Procedure, ProcedureBuilder, ReplayRequest, StorePolicy, UserPolicy,
    },
    rejection::Reason,
    status::{OutboxStatus, Resource},
    store::{
        ClaimOutcome, Completion, MemoryStore, PostgresStore, Reservation, ResourceTypes, Store, StoreErrorKind,
        StoredResponse,
    },
};
pub(crate) use tonic_idempotency_tests::{
    Database, proceeding,
    shop::{
        self, Counting, FILE_DESCRIPTOR_SET,
        proto::{CreateOrderReply, CreateOrderRequest, Order, shop_client::ShopClient},
    },
    until,
};
pub(crate) use tonic_types::StatusExt as _;
pub(crate) use tower_layer::Layer as _;
pub(crate) use uuid::Uuid;

pub(crate) use crate::{
    build::{compile, error},
    harness::{
        CREATE, Seen, Shop, assert_refused, assert_rejected, on_both_stores, order_id, postgres, quiet, retry_delay,
    },
    reconcile::reconcile,
    watched::{Operation, Watched},
    witness::{Answer, Witness},
};
