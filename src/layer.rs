use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use tower_layer::Layer;

use crate::{
    Idempotency, IdempotencyLayerBuilder, Procedure, UserResolver, builder::Descriptors, canonical::Canonical,
    engine::Engine,
};

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

    /// Waits until the calls that run have ended and their outcomes are recorded, for at most `bound`. To be called when
    /// the server accepts no more calls, before the process ends.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it stops waiting; nothing else.
    pub async fn drain(&self, bound: Duration) -> Drained {
        let Some(engine) = &self.shared.engine else {
            return Drained { left: 0 };
        };
        engine.tasks.close();
        let timed_out = tokio::time::timeout(bound, engine.tasks.wait()).await.is_err();
        engine.tasks.reopen();
        let left = if timed_out { engine.tasks.len() } else { 0 };
        if left > 0 {
            tracing::warn!(left, "calls still run; their keys stay reserved until their leases end");
        }
        Drained { left }
    }
}

/// What [`IdempotencyLayer::drain`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct Drained {
    /// How many calls still ran when the time was up.
    pub left: usize,
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
