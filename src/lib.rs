//! Idempotency keys for tonic services.

pub mod canonical;
#[cfg(feature = "postgres")]
pub mod migrations;
pub mod procedure;
pub mod proto;
pub mod store;
pub mod telemetry;

mod builder;
mod engine;
mod error;
mod interceptor;
mod key;
mod layer;
mod outbox;
mod service;
mod settle;
mod status;
mod sweep;
mod user;
mod wire;

#[cfg(feature = "postgres")]
pub use self::store::PostgresStore;
pub use self::{
    builder::{BuildError, Descriptors, IdempotencyLayerBuilder},
    error::{ERROR_DOMAIN, Mismatch, Reason, UnknownReason},
    interceptor::KeyInterceptor,
    key::{IdempotencyKey, InvalidKey},
    layer::{Drained, IdempotencyLayer},
    outbox::{StatusFromStore, StatusResolver},
    procedure::{
        Creates, KeyPolicy, LeasePolicy, Policies, Procedure, ProcedureBuilder, ProcedureError, ResourceIdError,
        StorePolicy, UserPolicy,
    },
    service::{Idempotency, ResponseFuture},
    status::{IdempotencyStatus, OutboxStatus, UnknownOutboxStatus},
    store::{MemoryStore, Resource, ResourceType, ResourceTypes, Store, StoreError, StoreErrorKind},
    sweep::{Sweeper, Sweeping},
    user::{UserFromExtensions, UserId, UserResolver},
};
