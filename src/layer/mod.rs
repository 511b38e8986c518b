//! The tower layer: its builder, the route of each call, and the shutdown.
//!
//! | module | contents |
//! |---|---|
//! | `layer`, `builder`, `requirements`, `shared` | [`IdempotencyLayer`](crate::IdempotencyLayer), its builder, and the state of its services |
//! | `service` | [`Idempotency`], the service that the layer creates |
//! | `protect`, `route` | the route of a call: passed through, protected, in a transaction without a key, or refused |
//! | `unprotected` | keys on procedures that are not opted in |
//! | `read` | reading and hashing of a request, and the search for its key |
//! | `answer`, `ready_service` | the layer as a front of the engine: its responses, and the inner service |
//! | `interceptor` | [`KeyInterceptor`], for handlers without the layer |

mod answer;
mod builder;
mod interceptor;
#[expect(clippy::module_inception, reason = "the layer itself, as in every middleware folder")]
pub(crate) mod layer;
mod protect;
mod read;
mod ready_service;
mod requirements;
pub(crate) mod route;
mod service;
mod shared;
mod unprotected;

pub use self::{builder::IdempotencyLayerBuilder, interceptor::KeyInterceptor, service::Idempotency};
pub use crate::{
    build_error::BuildError,
    caller::{CallerFromExtensions, CallerResolver, InvalidCallerId},
    descriptors::Descriptors,
    engine::shared::shutdown::{Shutdown, Stage, UnfinishedCall},
    future::ResponseFuture,
    grpc::CompressionEncoding,
};
