//! Finds out how a call ended that did not say so.

use std::{collections::HashMap, error::Error, fmt, panic::AssertUnwindSafe, pin::Pin, sync::Arc};

use bytes::Bytes;
use futures_util::FutureExt as _;
use prost::Message;

use crate::{
    IdempotencyKey, LeasePolicy, UserId,
    engine::{Engine, call::Call, held_key::Hold, settle::Settlement},
    telemetry::{self, Chain},
};

type BoxError = Box<dyn Error + Send + Sync>;

/// Finds out how a call ended whose lease ended without an outcome: its process died, or was cut off from the store.
///
/// It looks for the effect where the effect would be, in the business tables or at the payment provider, by the key that the
/// handler took along (handlers find the `IdempotencyKey` in the request's extensions). Asked for the procedures whose policy is
/// [`LeasePolicy::Reconcile`]: when a client retries, and by [`Recovery`](crate::Recovery) in the background. While it is
/// asked, the key is reserved for the asker; it has to answer within the lease.
///
/// A closure is one, too:
///
/// ```
/// use tonic_idempotency::{Abandoned, Reconciliation};
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
/// # fn is_one(_: impl tonic_idempotency::Reconciler) {}
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

/// The reconcilers of a layer, by the paths of their procedures.
#[derive(Default)]
pub(crate) struct Reconcilers {
    by_path: HashMap<String, Box<dyn DynReconciler>>,
}

impl Reconcilers {
    pub(crate) fn insert(&mut self, path: String, reconciler: impl Reconciler) {
        self.by_path.insert(path, Box::new(reconciler));
    }

    pub(crate) fn contains(&self, path: &str) -> bool {
        self.by_path.contains_key(path)
    }

    /// How the call ended that held this one's key. Bounded by the lease: after it the key may be somebody else's.
    async fn ask(&self, call: &Call) -> Reconciliation {
        let procedure = &call.procedure;
        let Some(reconciler) = self.by_path.get(procedure.path()) else { return Reconciliation::Unknown };
        let abandoned = Abandoned {
            user: call.reservation.user,
            key: call.reservation.key,
            procedure: procedure.path().to_owned(),
            request: call.request.clone(),
        };
        let asked = AssertUnwindSafe(async { reconciler.reconcile(abandoned).await }).catch_unwind();
        let (reconciliation, problem) = match tokio::time::timeout(procedure.policies().lease / 2, asked).await {
            Ok(Ok(Ok(reconciliation))) => (reconciliation, None),
            Ok(Ok(Err(error))) => (Reconciliation::Unknown, Some(Chain(&*error).to_string())),
            Ok(Err(_panic)) => (Reconciliation::Unknown, Some("the reconciler panicked".to_owned())),
            Err(_) => (Reconciliation::Unknown, Some("the reconciler took longer than half a lease".to_owned())),
        };
        telemetry::reconciled(procedure, reconciliation.as_str(), problem.as_deref());
        reconciliation
    }
}

impl fmt::Debug for Reconcilers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_path.keys()).finish()
    }
}

/// What came of a reconciliation.
pub(crate) enum Verdict {
    /// The handler is to run, with the key that was held for the question.
    NotExecuted(Hold),
    /// It is known, and the store does not take it at the moment.
    NotRecorded,
    /// There is a record now.
    Recorded,
    Unknown,
}

impl Engine {
    /// Finds out how the call ended that held the key before, where the policy is to ask; and records it.
    pub(crate) async fn reconcile(&self, call: &Arc<Call>, hold: Hold) -> Verdict {
        if call.procedure.policies().on_lease_ended != LeasePolicy::Reconcile {
            telemetry::taken_over(&call.procedure);
            return Verdict::NotExecuted(hold);
        }
        let message = match self.reconcilers.ask(call).await {
            Reconciliation::Completed(message) => message,
            Reconciliation::NotExecuted => return Verdict::NotExecuted(hold),
            Reconciliation::Unknown => {
                self.let_go(call, hold, Settlement::Abandon).await;
                return Verdict::Unknown;
            }
        };
        let completion = self.completion(call, Some(message), None);
        match hold {
            Hold::Reservation(lease) => {
                if !self.record(call, Settlement::Complete(completion), lease).await {
                    // To be left alone: it is being recorded in the background, and must not be claimed and released.
                    return Verdict::NotRecorded;
                }
            }
            Hold::Transaction(transaction) => {
                if let Err(error) = transaction.commit(Some(completion)).await {
                    let what = "what the reconciler found is not recorded";
                    telemetry::not_settled(&call.procedure, "commit", what, Some(&Chain(&error)));
                    return Verdict::NotRecorded;
                }
            }
        }
        Verdict::Recorded
    }
}

/// A [`Reconciler`] whose type is not known: so that the layer's type does not name it.
trait DynReconciler: Send + Sync {
    fn reconcile<'a>(
        &'a self,
        abandoned: Abandoned,
    ) -> Pin<Box<dyn Future<Output = Result<Reconciliation, BoxError>> + Send + 'a>>;
}

impl<R: Reconciler> DynReconciler for R {
    fn reconcile<'a>(
        &'a self,
        abandoned: Abandoned,
    ) -> Pin<Box<dyn Future<Output = Result<Reconciliation, BoxError>> + Send + 'a>> {
        Box::pin(Reconciler::reconcile(self, abandoned))
    }
}
