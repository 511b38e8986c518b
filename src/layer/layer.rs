use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use tower_layer::Layer;

#[cfg(feature = "connect")]
use crate::connect::Translator;
use crate::{
    Idempotency, IdempotencyLayerBuilder, Procedure, Recovery, Shutdown, UserResolver, engine::Engine,
    layer::builder::Descriptors,
};
use protobuf_canonical::Canonical;

/// Protects the procedures that are opted in: wraps one generated server, or all routes of a tonic server.
///
/// Clones share everything. Put the authentication interceptor in front: with `Server::builder()`, the layer added first is
/// the outermost.
///
/// ```
/// use tonic_idempotency::{IdempotencyLayer, MemoryStore, Procedure};
/// # const FILE_DESCRIPTOR_SET: &[u8] = tonic_idempotency::proto::FILE_DESCRIPTOR_SET;
///
/// # fn main() -> Result<(), tonic_idempotency::BuildError> {
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
    pub(crate) shared: Arc<Shared>,
}

/// What the services of one layer share.
pub(crate) struct Shared {
    /// By path.
    pub(crate) procedures: HashMap<String, Arc<Protected>>,
    /// `None` where no store is configured.
    pub(crate) engine: Option<Arc<Engine>>,
    pub(crate) user: Box<dyn UserResolver>,
    /// The largest request message, in bytes.
    pub(crate) max_request_bytes: usize,
    /// For calls that are not gRPC, where the service speaks more than that.
    #[cfg(feature = "connect")]
    pub(crate) translator: Translator,
}

/// A procedure, and what hashes its requests.
#[derive(Debug)]
pub(crate) struct Protected {
    pub(crate) procedure: Arc<Procedure>,
    pub(crate) canonical: Canonical,
}

impl IdempotencyLayer {
    /// A layer for the services in these descriptors: an encoded `FileDescriptorSet` or a
    /// [`DescriptorPool`](prost_reflect::DescriptorPool).
    pub fn builder(descriptors: impl Into<Descriptors>) -> IdempotencyLayerBuilder {
        IdempotencyLayerBuilder::new(descriptors.into())
    }

    /// The procedures that take keys, in no particular order.
    pub fn procedures(&self) -> impl Iterator<Item = &Procedure> {
        self.shared.procedures.values().map(|protected| &*protected.procedure)
    }

    /// Finds out in the background how calls ended that did not say so, for the procedures with the policy
    /// [`LeasePolicy::Reconcile`](crate::LeasePolicy::Reconcile).
    pub fn recovery(&self) -> Recovery {
        Recovery::new(Arc::clone(&self.shared))
    }

    /// Shuts the layer down, and all its clones: refuses new calls with a key or to a transactional procedure, and those that
    /// wait, with `UNAVAILABLE`, `IDEMPOTENCY_SHUTTING_DOWN`; waits until the calls that run have ended and their outcomes are
    /// recorded, for at most `bound`; and says what it left behind. To be called before the process ends, while or after the
    /// server stops.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it stops waiting. New calls stay refused; it can be called again.
    pub async fn shut_down(&self, bound: Duration) -> Shutdown {
        match &self.shared.engine {
            Some(engine) => engine.running.shut_down(bound).await,
            None => Shutdown { left: Vec::new() },
        }
    }
}

impl<S> Layer<S> for IdempotencyLayer {
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
