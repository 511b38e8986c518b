//! Sources of the status of a resource other than the store.

use std::error::Error;

use futures_util::future::BoxFuture;

use super::{OutboxStatus, Resource};
use crate::caller::Caller;

/// Finds out the status of the asynchronous work behind a resource.
///
/// Without a resolver, a replay reports the status that the store's claim returns. `PostgresStore` gets it in the same
/// round trip from the SQL function `tenant.idempotency_resource_status`. With a resolver, the layer asks it instead of
/// the store, after the claim, for each replay of a call that created a resource. An answer of `completed` or `failed`
/// is final, and the layer may use it again for a minute.
///
/// An error of the resolver does not fail the call: it is logged, and the replay reports `processing`.
///
/// ```
/// use tonic_idempotency::{Caller, status::{OutboxStatus, Resource, StatusResolver}};
///
/// struct Workflows;
///
/// impl StatusResolver for Workflows {
///     type Error = std::convert::Infallible;
///
///     async fn status(&self, _: &Caller, resource: &Resource) -> Result<Option<OutboxStatus>, Self::Error> {
///         // Ask the workflow engine about `resource.id`.
///         Ok((resource.resource_type == "cluster").then_some(OutboxStatus::Pending))
///     }
/// }
/// ```
pub trait StatusResolver: Send + Sync + 'static {
    /// The error of the resolver.
    type Error: Into<Box<dyn Error + Send + Sync>>;

    /// Returns the newest status of the work behind the resource, for the caller of the replay; `None` if it is not
    /// known.
    ///
    /// # Errors
    ///
    /// Any error that prevents an answer.
    fn status(
        &self,
        caller: &Caller,
        resource: &Resource,
    ) -> impl Future<Output = Result<Option<OutboxStatus>, Self::Error>> + Send;
}

type BoxError = Box<dyn Error + Send + Sync>;

/// A [`StatusResolver`] without its type.
pub(crate) trait DynStatusResolver: Send + Sync {
    fn status<'a>(
        &'a self,
        caller: &'a Caller,
        resource: &'a Resource,
    ) -> BoxFuture<'a, Result<Option<OutboxStatus>, BoxError>>;
}

impl<R: StatusResolver> DynStatusResolver for R {
    fn status<'a>(
        &'a self,
        caller: &'a Caller,
        resource: &'a Resource,
    ) -> BoxFuture<'a, Result<Option<OutboxStatus>, BoxError>> {
        Box::pin(async move { StatusResolver::status(self, caller, resource).await.map_err(Into::into) })
    }
}
