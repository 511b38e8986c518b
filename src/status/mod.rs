//! The status of the asynchronous work behind a created resource, and its sources.

mod outbox_status;
mod resolver;
mod resource;
mod resource_id;

pub(crate) use self::resolver::DynStatusResolver;
pub use self::{
    outbox_status::{OutboxStatus, UnknownOutboxStatus},
    resolver::StatusResolver,
    resource::Resource,
    resource_id::{IdKind, InvalidResourceId, ResourceId},
};
pub use tonic_idempotency_wire::IdempotencyStatus;
