//! Authorizers: they decide whether a caller still gets a replay.

use tonic::Status;

use crate::{caller::Caller, key::KeyId, status::Resource};

/// Decides whether a caller gets a replay.
///
/// A handler checks what its caller may do; a replay runs no handler. An authorizer is asked before each replay, also before
/// one from memory, one of a final error, and the response of an identical call that was waited for. It is not asked before
/// a handler runs. By default there is no authorizer: the same user made the first call, in the same scope.
///
/// Closures are authorizers, too:
///
/// ```
/// use tonic::Status;
/// use tonic_idempotency::policy::ReplayRequest;
///
/// # #[derive(Clone)] struct Members;
/// # impl Members { async fn contains(&self, _: &tonic_idempotency::UserId) -> bool { true } }
/// # let members = Members;
/// let authorizer = move |request: ReplayRequest| {
///     let members = members.clone();
///     async move {
///         if members.contains(&request.caller.user).await {
///             Ok(())
///         } else {
///             Err(Status::permission_denied("you have left the organisation"))
///         }
///     }
/// };
/// # fn is_one(_: impl tonic_idempotency::policy::ReplayAuthorizer) {}
/// # is_one(authorizer);
/// ```
pub trait ReplayAuthorizer: Send + Sync + 'static {
    /// Allows the replay.
    ///
    /// # Errors
    ///
    /// The status that the caller gets instead. The record stays as it is.
    ///
    /// # Cancel safety
    ///
    /// The future is dropped after 5 seconds: the call is refused with `UNAVAILABLE` then. It may be dropped when the client disconnects.
    fn authorize(&self, request: ReplayRequest) -> impl Future<Output = Result<(), Status>> + Send;
}

impl<F, R> ReplayAuthorizer for F
where
    F: Fn(ReplayRequest) -> R + Send + Sync + 'static,
    R: Future<Output = Result<(), Status>> + Send,
{
    fn authorize(&self, request: ReplayRequest) -> impl Future<Output = Result<(), Status>> + Send {
        self(request)
    }
}

/// A call that is to be answered with a replay.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReplayRequest {
    /// The caller, who also made the first call.
    pub caller: Caller,
    /// The key, as it is stored.
    pub key: KeyId,
    /// The path of the procedure, with its leading slash: `/shop.v1.Shop/GetQuote`.
    pub procedure: String,
    /// The resource that the first call created; `None` if it created none, or ended with an error.
    pub resource: Option<Resource>,
}
