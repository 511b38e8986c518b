//! Rebuilders: they make the message of a replay from the current state of the resource.

use prost::Message;
use tonic::Status;

use crate::{caller::Caller, key::KeyId, status::Resource};

/// Makes the message of a replay from the current state of the created resource, in place of a copy of the first response.
///
/// The record keeps the resource's id and no response: responses may be of any size, secrets in them are never stored, and
/// a replay shows the resource as it is, not as it was. The handler's response metadata is not replayed. A final error is
/// replayed from the record as usual.
///
/// Closures are rebuilders, too:
///
/// ```
/// use tonic::Status;
/// use tonic_idempotency::policy::RebuildRequest;
///
/// # #[derive(Clone, PartialEq, prost::Message)] struct Order { #[prost(string, tag = "1")] id: String }
/// # #[derive(Clone)] struct Orders;
/// # impl Orders { async fn get(&self, id: &tonic_idempotency::status::ResourceId) -> Option<Order> { Some(Order { id: id.to_string() }) } }
/// # let orders = Orders;
/// let rebuilder = move |request: RebuildRequest| {
///     let orders = orders.clone();
///     async move {
///         let order = orders.get(&request.resource.id).await; // `id.as_uuid()`, `id.as_integer()`, `id.to_text()`
///         order.ok_or_else(|| Status::not_found("the order was created, and is gone"))
///     }
/// };
/// # fn is_one(_: impl tonic_idempotency::policy::Rebuilder) {}
/// # is_one(rebuilder);
/// ```
pub trait Rebuilder: Send + Sync + 'static {
    /// The response message of the procedure; [`Encoded`](super::Encoded) for one that is not prost's.
    type Response: Message;

    /// Makes the response message.
    ///
    /// # Errors
    ///
    /// The status that the caller gets instead. The record stays as it is, and the next retry asks again.
    ///
    /// # Cancel safety
    ///
    /// The future is dropped after 5 seconds: the call is refused with `UNAVAILABLE` then.
    fn rebuild(&self, request: RebuildRequest) -> impl Future<Output = Result<Self::Response, Status>> + Send;
}

impl<F, R, M> Rebuilder for F
where
    F: Fn(RebuildRequest) -> R + Send + Sync + 'static,
    R: Future<Output = Result<M, Status>> + Send,
    M: Message,
{
    type Response = M;

    fn rebuild(&self, request: RebuildRequest) -> impl Future<Output = Result<M, Status>> + Send {
        self(request)
    }
}

/// A call whose replay is to be made.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RebuildRequest {
    /// The caller, who also made the first call.
    pub caller: Caller,
    /// The key, as it is stored.
    pub key: KeyId,
    /// The resource that the first call created.
    pub resource: Resource,
}
