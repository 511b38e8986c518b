//! Reconcilers: they find out how an abandoned call ended.

use std::error::Error;

use bytes::Bytes;
use prost::Message;

use crate::{
    caller::{Caller, OwnerId},
    key::KeyId,
};

type BoxError = Box<dyn Error + Send + Sync>;

/// Finds out how an abandoned call ended: its lease ended without an outcome, because its process died, or lost its
/// connection to the store.
///
/// A reconciler looks for the effect itself, such as a row in the business tables or a charge at the payment provider.
/// It searches by the owner and the key's [id](KeyId), which handlers have to record with the effect: they find the
/// [`IdempotencyKey`](crate::IdempotencyKey) in the request's extensions. The layer asks the reconciler of a procedure with [`LeasePolicy::Reconcile`](super::LeasePolicy::Reconcile)
/// when a client retries the call; [`Recovery`](crate::maintenance::Recovery) asks in the background. The key stays
/// reserved meanwhile. An answer that takes longer than half the lease counts as [`Reconciliation::Unknown`].
///
/// Closures are reconcilers, too:
///
/// ```
/// use tonic_idempotency::policy::{Abandoned, Reconciliation};
///
/// # #[derive(Clone)] struct Orders;
/// # impl Orders { async fn by_key(&self, _: tonic_idempotency::KeyId) -> Result<Option<()>, std::io::Error> { Ok(None) } }
/// # let orders = Orders;
/// let reconciler = move |abandoned: Abandoned| {
///     let orders = orders.clone();
///     async move {
///         Ok(match orders.by_key(abandoned.key).await? {
///             Some(order) => Reconciliation::completed(&order),
///             None => Reconciliation::NotExecuted,
///         })
///     }
/// };
/// # fn is_one(_: impl tonic_idempotency::policy::Reconciler) {}
/// # is_one(reconciler);
/// ```
pub trait Reconciler: Send + Sync + 'static {
    /// Finds out how the call ended.
    ///
    /// # Errors
    ///
    /// Any error that prevents an answer. It is logged, and counts as [`Reconciliation::Unknown`].
    ///
    /// # Cancel safety
    ///
    /// The future is dropped if it takes longer than half the lease.
    fn reconcile(&self, abandoned: Abandoned) -> impl Future<Output = Result<Reconciliation, BoxError>> + Send;
}

impl<F, R> Reconciler for F
where
    F: Fn(Abandoned) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Reconciliation, BoxError>> + Send,
{
    fn reconcile(&self, abandoned: Abandoned) -> impl Future<Output = Result<Reconciliation, BoxError>> + Send {
        self(abandoned)
    }
}

/// A call whose lease ended without an outcome.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Abandoned {
    /// The owner of the record. In the background nothing else is known of the caller, so the effect has to be found by
    /// it: record [`Caller::owner`] with the effect, unless all users are UUIDs in no scope, who are their own owners.
    pub owner: OwnerId,
    /// The caller if a client retries the call; `None` in the background, as records keep only their owners.
    pub caller: Option<Caller>,
    /// The key, as it is stored.
    pub key: KeyId,
    /// The path of the procedure.
    pub procedure: String,
    /// The encoded request message if a client retries the call; `None` in the background, as requests are not stored, and of an
    /// [operation](crate::run).
    pub request: Option<Bytes>,
}

/// The answer of a reconciler: how an abandoned call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reconciliation {
    /// The call took effect. Contains its encoded response message, which is recorded and returned to this retry and
    /// all later ones. The handler's metadata is lost.
    Completed(Bytes),
    /// The call did not take effect, and will not. The handler runs again.
    NotExecuted,
    /// The outcome is unknown. The retry is refused with `IDEMPOTENCY_OUTCOME_UNKNOWN`; a later one asks again.
    Unknown,
}

impl Reconciliation {
    /// Creates a [`Completed`](Self::Completed) with this response message.
    pub fn completed(response: &impl Message) -> Self {
        Self::Completed(response.encode_to_vec().into())
    }

    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Completed(_) => "completed",
            Self::NotExecuted => "not_executed",
            Self::Unknown => "unknown",
        }
    }
}
