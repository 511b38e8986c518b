//! The layer.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Extensions, HeaderMap, Request, Response};
use tonic::{body::Body, codegen::StdError};
use tower_layer::Layer;
use tower_service::Service;

use super::{route::KnownCaller, service::Idempotency, shared::Shared};
use prost_reflect::DescriptorPool;

use crate::{
    caller::Caller,
    engine::shared::{shutdown::Shutdown, state::Engine},
    maintenance::Recovery,
    policy::{self, Procedure, ScopePolicy},
    rejection::Rejection,
    store::InvalidSetting,
    telemetry::ProcedureTelemetry,
};

/// Protects the procedures that are opted in. Wraps one generated server, or all routes of a tonic server.
///
/// Clones share all state. The authentication interceptor has to be in front of this layer: with `Server::builder()`,
/// the layer added first is the outermost.
///
/// ```
/// use tonic_idempotency::{IdempotencyLayer, store::MemoryStore, policy::Procedure};
/// # const FILE_DESCRIPTOR_SET: &[u8] = tonic_idempotency::proto::FILE_DESCRIPTOR_SET;
///
/// # fn main() -> Result<(), tonic_idempotency::layer::BuildError> {
/// // Default: the procedures that the descriptors opt in, with a store.
/// let layer = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(MemoryStore::new()).build();
/// // These descriptors opt in no procedure, which is an error by default.
/// assert!(layer.is_err());
///
/// // Customised: no store, for development. Calls pass through unchanged.
/// let layer = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).allow_no_procedures().build()?;
/// assert_eq!(layer.procedures().count(), 0);
/// # Ok(())
/// # }
/// ```
///
/// The handler of a call with a key runs in a task of its own, which has none of the [task locals](tokio::task_local) of a middleware in front
/// of the layer. A middleware between the layer and the handler runs in the handler's task:
///
/// ```
/// use std::task::{Context, Poll};
/// use http::{Request, Response};
/// use tonic::{body::Body, server::NamedService};
/// use tower_service::Service;
///
/// tokio::task_local! { static TENANT: String; }
///
/// /// `layer.layer(WithTenant(OrdersServer::new(orders)))`
/// #[derive(Clone)]
/// struct WithTenant<S>(S);
///
/// impl<S: Service<Request<Body>, Response = Response<Body>>> Service<Request<Body>> for WithTenant<S> {
///     type Response = S::Response;
///     type Error = S::Error;
///     type Future = tokio::task::futures::TaskLocalFuture<String, S::Future>;
///
///     fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
///         self.0.poll_ready(context)
///     }
///
///     fn call(&mut self, request: Request<Body>) -> Self::Future {
///         // Inserted by the authentication in front of the layer.
///         let tenant = request.extensions().get::<String>().cloned().unwrap_or_default();
///         TENANT.scope(tenant, self.0.call(request))
///     }
/// }
///
/// impl<S: NamedService> NamedService for WithTenant<S> {
///     const NAME: &'static str = S::NAME;
/// }
/// ```
#[derive(Clone)]
pub struct IdempotencyLayer {
    pub(super) shared: Arc<Shared>,
}

impl IdempotencyLayer {
    /// Returns the procedures that take keys, in no particular order.
    pub fn procedures(&self) -> impl Iterator<Item = &Procedure> {
        self.shared.procedures.values().map(|protected| &*protected.procedure)
    }

    /// Returns a background task that reconciles abandoned calls of procedures with the policy
    /// [`LeasePolicy::Reconcile`](crate::policy::LeasePolicy::Reconcile).
    pub fn recovery(&self) -> Recovery {
        let procedures = self.shared.procedures.values().map(|protected| &protected.procedure);
        let all = procedures.chain(self.shared.operations.values()).map(Arc::clone);
        Recovery::new(self.shared.engine.clone(), all)
    }

    /// Shuts down the layer and all its clones, and reports the calls that have not ended in time. Call it before the
    /// process ends, while or after the server stops.
    ///
    /// New calls with a key, or to a procedure that is transactional or has a key field, are refused with `UNAVAILABLE`,
    /// `IDEMPOTENCY_SHUTTING_DOWN`; so are calls that wait for another call. Then the method waits until all running
    /// calls have ended and their outcomes are recorded, for at most `bound`.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, new calls remain refused. The method can be called again.
    pub async fn shutdown(&self, bound: Duration) -> Shutdown {
        match &self.shared.engine {
            Some(engine) => engine.tracker.shutdown(bound).await,
            None => Shutdown::default(),
        }
    }

    /// Returns the state that all calls share; `None` without a store.
    pub(crate) fn engine(&self) -> Option<&Arc<Engine>> {
        self.shared.engine.as_ref()
    }

    /// Returns the procedure or operation with this path, if it takes keys.
    pub(crate) fn procedure(&self, path: &str) -> Option<&Procedure> {
        self.protected(path).or_else(|| self.shared.operations.get(path).map(|operation| &**operation))
    }

    /// Returns the procedure with this path, if the layer protects its calls.
    pub(crate) fn protected(&self, path: &str) -> Option<&Procedure> {
        self.shared.procedures.get(path).map(|protected| &*protected.procedure)
    }

    /// Returns a declared operation, and the descriptors.
    pub(crate) fn declared(&self, name: &str) -> Option<(&Arc<Procedure>, &DescriptorPool)> {
        let operation = self.shared.operations.get(&policy::path(name.to_owned()))?;
        Some((operation, &self.shared.descriptors))
    }

    pub(crate) fn on_no_scope(&self) -> ScopePolicy {
        self.shared.on_no_scope
    }

    pub(crate) fn know(&self, caller: Caller, procedure: &Procedure) -> Result<KnownCaller, InvalidSetting> {
        self.shared.know(caller, procedure)
    }

    /// Finds the caller of a request to the [`OperationService`](crate::operations).
    pub(crate) fn caller_of(
        &self,
        headers: &HeaderMap,
        extensions: &Extensions,
        telemetry: &ProcedureTelemetry,
    ) -> Result<KnownCaller, Rejection> {
        self.shared.caller_of(headers, extensions, telemetry)
    }

    /// Advances the clock by which keys expire, and empties the replay cache: the next replays ask the store.
    #[cfg(feature = "testing")]
    pub(crate) fn advance(&self, by: Duration) {
        if let Some(engine) = &self.shared.engine {
            engine.clock.advance(by);
            engine.replay_cache.clear();
        }
    }
}

impl<S, R> Layer<S> for IdempotencyLayer
where
    S: Service<Request<Body>, Response = Response<R>> + Clone + Send + 'static,
    S::Error: Into<StdError> + Send + 'static,
    S::Future: Send + 'static,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<StdError>,
{
    type Service = Idempotency<S>;

    fn layer(&self, inner: S) -> Idempotency<S> {
        Idempotency::new(inner, Arc::clone(&self.shared))
    }
}

impl fmt::Debug for IdempotencyLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyLayer")
            .field("procedures", &self.procedures().map(Procedure::path).collect::<Vec<_>>())
            .field("store", &self.shared.engine.is_some())
            .finish_non_exhaustive()
    }
}
