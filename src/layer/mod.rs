//! The tower layer: how it is built, which way each call goes, and how it is shut down.
//!
//! | module | holds |
//! |---|---|
//! | `layer`, `builder`, `shared` | [`IdempotencyLayer`](crate::IdempotencyLayer), its builder, and the state of its services |
//! | `service` | [`Idempotency`], the service that the layer makes |
//! | `protect`, `route` | the way of a call: passed through, protected, in a transaction without a key, refused |
//! | `read` | the request, read and hashed |
//! | `interceptor` | [`KeyInterceptor`], for handlers behind no layer |

mod builder;
mod interceptor;
#[expect(clippy::module_inception, reason = "the layer itself, as in every middleware folder")]
pub(crate) mod layer;
mod protect;
mod read;
mod route;
mod service;
mod shared;

pub use self::{builder::IdempotencyLayerBuilder, interceptor::KeyInterceptor, service::Idempotency};
pub use crate::{
    build_error::BuildError,
    descriptors::Descriptors,
    engine::shutdown::{Shutdown, Stage, UnfinishedCall},
    future::ResponseFuture,
    user::{UserFromExtensions, UserResolver},
};
