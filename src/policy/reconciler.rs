//! The question how a call ended that left no outcome.

use std::error::Error;

use bytes::Bytes;
use prost::Message;

use crate::{key::IdempotencyKey, user::UserId};

type BoxError = Box<dyn Error + Send + Sync>;

/// Finds out how a call ended whose lease ended without an outcome: its process died, or was cut off from the store.
///
/// It looks for the effect where the effect would be, in the business tables or at the payment provider, by the key that the
/// handler took along (handlers find the `IdempotencyKey` in the request's extensions). Asked for the procedures whose policy is
/// [`LeasePolicy::Reconcile`]: when a client retries, and by [`Recovery`](crate::maintenance::Recovery) in the background. While it is
/// asked, the key is reserved for the asker; it has to answer within the lease.
///
/// A closure is one, too:
///
/// ```
/// use tonic_idempotency::policy::{Abandoned, Reconciliation};
///
/// # #[derive(Clone)] struct Orders;
/// # impl Orders { async fn by_key(&self, _: tonic_idempotency::IdempotencyKey) -> Result<Option<()>, std::io::Error> { Ok(None) } }
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
    /// How the call ended.
    ///
    /// # Errors
    ///
    /// It cannot be found out at the moment; counts as [`Reconciliation::Unknown`], and is logged.
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

/// A call that ended without saying how.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Abandoned {
    /// Its user.
    pub user: UserId,
    /// Its key.
    pub key: IdempotencyKey,
    /// The path of its procedure.
    pub procedure: String,
    /// The encoded request message, where a client retries; `None` in the background, where nobody has it.
    pub request: Option<Bytes>,
}

/// How an abandoned call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reconciliation {
    /// It took effect; this is its response message, encoded. It is recorded, and given to this retry and all later ones;
    /// without metadata of the handler's, which is gone.
    Completed(Bytes),
    /// It did not, and will not any more. The handler is run again.
    NotExecuted,
    /// Nobody knows. The call is refused with `IDEMPOTENCY_OUTCOME_UNKNOWN`; a later retry asks again.
    Unknown,
}

impl Reconciliation {
    /// It took effect, with this response.
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
