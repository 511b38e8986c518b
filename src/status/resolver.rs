//! Where the status of a resource comes from, if not from the store.

use std::error::Error;

use futures_util::future::BoxFuture;

use super::{OutboxStatus, Resource};
use crate::user::UserId;

/// Finds out how far the asynchronous work behind a resource has come.
///
/// Without one, a replay reports what the store's claim brought along: with `PostgresStore` what the SQL function
/// `tenant.idempotency_resource_status` says, in the same round trip. A resolver is asked after the claim, at each replay of
/// a call that created a resource, and instead of the store. What it says last, `completed` or `failed`, is believed for a while
/// ([`replay_cache_max_age`](crate::layer::IdempotencyLayerBuilder::replay_cache_max_age)).
///
/// It fails softly: an error is logged, and the status is `processing`.
///
/// ```
/// use tonic_idempotency::{UserId, status::{OutboxStatus, Resource, StatusResolver}};
///
/// struct Workflows;
///
/// impl StatusResolver for Workflows {
///     type Error = std::convert::Infallible;
///
///     async fn status(&self, _: UserId, resource: &Resource) -> Result<Option<OutboxStatus>, Self::Error> {
///         // Ask the workflow engine about `resource.id`.
///         Ok((resource.resource_type == "cluster").then_some(OutboxStatus::Pending))
///     }
/// }
/// ```
pub trait StatusResolver: Send + Sync + 'static {
    /// What can go wrong.
    type Error: Into<Box<dyn Error + Send + Sync>>;

    /// The newest status of the work behind the resource; `None` where nothing is known.
    ///
    /// # Errors
    ///
    /// Whatever kept it from being found out.
    fn status(
        &self,
        user: UserId,
        resource: &Resource,
    ) -> impl Future<Output = Result<Option<OutboxStatus>, Self::Error>> + Send;
}

type BoxError = Box<dyn Error + Send + Sync>;

/// A [`StatusResolver`] without its type.
pub(crate) trait DynStatusResolver: Send + Sync {
    fn status<'a>(
        &'a self,
        user: UserId,
        resource: &'a Resource,
    ) -> BoxFuture<'a, Result<Option<OutboxStatus>, BoxError>>;
}

impl<R: StatusResolver> DynStatusResolver for R {
    fn status<'a>(
        &'a self,
        user: UserId,
        resource: &'a Resource,
    ) -> BoxFuture<'a, Result<Option<OutboxStatus>, BoxError>> {
        Box::pin(async move { StatusResolver::status(self, user, resource).await.map_err(Into::into) })
    }
}
