//! The reconcilers of a layer, by procedure.

use std::{collections::HashMap, fmt, panic::AssertUnwindSafe};

use futures_util::{FutureExt as _, future::BoxFuture};

use crate::{
    engine::call::ProtectedCall,
    policy::{Abandoned, Reconciler, Reconciliation},
    telemetry::Chain,
};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

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

    /// Asks how the previous holder's call ended. Takes at most half of the lease: after that, another call may take over the
    /// key.
    pub(in crate::engine) async fn ask(&self, call: &ProtectedCall) -> Reconciliation {
        let procedure = &call.procedure;
        let Some(reconciler) = self.by_path.get(procedure.path()) else { return Reconciliation::Unknown };
        let abandoned = Abandoned {
            owner: call.reservation.owner,
            caller: call.caller.clone(),
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
        procedure.telemetry().reconciled(reconciliation.as_str(), problem.as_deref());
        reconciliation
    }
}

impl fmt::Debug for Reconcilers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_path.keys()).finish()
    }
}

/// A [`Reconciler`] without its type, so that the type of the layer does not name it.
trait DynReconciler: Send + Sync {
    fn reconcile(&self, abandoned: Abandoned) -> BoxFuture<'_, Result<Reconciliation, BoxError>>;
}

impl<R: Reconciler> DynReconciler for R {
    fn reconcile(&self, abandoned: Abandoned) -> BoxFuture<'_, Result<Reconciliation, BoxError>> {
        Box::pin(Reconciler::reconcile(self, abandoned))
    }
}
