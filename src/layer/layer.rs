//! The layer.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use tonic::{body::Body, codegen::StdError};
use tower_layer::Layer;
use tower_service::Service;

use super::{service::Idempotency, shared::Shared};
use crate::{engine::shutdown::Shutdown, maintenance::Recovery, policy::Procedure};

/// Protects the procedures that are opted in: wraps one generated server, or all routes of a tonic server.
///
/// Clones share everything. Put the authentication interceptor in front: with `Server::builder()`, the layer added first is
/// the outermost.
///
/// ```
/// use tonic_idempotency::{IdempotencyLayer, store::MemoryStore, policy::Procedure};
/// # const FILE_DESCRIPTOR_SET: &[u8] = tonic_idempotency::proto::FILE_DESCRIPTOR_SET;
///
/// # fn main() -> Result<(), tonic_idempotency::layer::BuildError> {
/// // Default: what the descriptors opt in, with a store.
/// let layer = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(MemoryStore::new()).build();
/// // These descriptors opt nothing in, and that is an error rather than a layer that does nothing.
/// assert!(layer.is_err());
///
/// // Customised: without a store, for development, calls pass through untouched.
/// let layer = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).allow_no_procedures().build()?;
/// assert_eq!(layer.procedures().count(), 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct IdempotencyLayer {
    pub(super) shared: Arc<Shared>,
}

impl IdempotencyLayer {
    /// The procedures that take keys, in no particular order.
    pub fn procedures(&self) -> impl Iterator<Item = &Procedure> {
        self.shared.procedures.values().map(|protected| &*protected.procedure)
    }

    /// Finds out in the background how calls ended that did not say so, for the procedures with the policy
    /// [`LeasePolicy::Reconcile`](crate::LeasePolicy::Reconcile).
    pub fn recovery(&self) -> Recovery {
        let procedures = self.shared.procedures.values().map(|protected| Arc::clone(&protected.procedure));
        Recovery::new(self.shared.engine.clone(), procedures)
    }

    /// Shuts the layer down, and all its clones: refuses new calls with a key or to a transactional procedure, and those that
    /// wait, with `UNAVAILABLE`, `IDEMPOTENCY_SHUTTING_DOWN`; waits until the calls that run have ended and their outcomes are
    /// recorded, for at most `bound`; and says what it left behind. To be called before the process ends, while or after the
    /// server stops.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it stops waiting. New calls stay refused; it can be called again.
    pub async fn shutdown(&self, bound: Duration) -> Shutdown {
        match &self.shared.engine {
            Some(engine) => engine.tracker.shutdown(bound).await,
            None => Shutdown::default(),
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
