//! Builds the service by which callers look up their calls.

use std::{fmt, time::Duration};

use super::{service::OperationService, wait::WaitLimits};
use crate::{IdempotencyLayer, proto::v1::operation_service_server::OperationServiceServer};

/// The limit of the longest wait: no client waits longer.
const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);

/// The largest message of a request, in bytes.
const LARGEST_REQUEST: usize = 64 << 10;

impl IdempotencyLayer {
    /// Returns a builder of the service by which callers look up their calls. It shares the layer's store, and knows the calls that run
    /// in this process; the layer need not be around it. See [`operations`](crate::operations).
    pub fn operations(&self) -> OperationServiceBuilder {
        OperationServiceBuilder { layer: self.clone(), waiting: WaitLimits::default() }
    }
}

/// Builds an [`OperationService`]. The [limit](crate::policy::Limits::waiting) of the requests that wait is the layer's.
///
/// ```
/// # use tonic_idempotency::{IdempotencyLayer, proto::FILE_DESCRIPTOR_SET, store::MemoryStore};
///
/// # let builder = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(MemoryStore::new()).allow_no_procedures();
/// # let idempotency = builder.build()?;
/// let server = idempotency.operations().build();
/// # drop(server);
/// # Ok::<(), tonic_idempotency::layer::BuildError>(())
/// ```
#[must_use = "a builder does nothing until `build`"]
pub struct OperationServiceBuilder {
    layer: IdempotencyLayer,
    waiting: WaitLimits,
}

impl OperationServiceBuilder {
    /// Sets the longest time that `WaitOperation` waits, 30 seconds, which is also the default of its `timeout`. At most 1 hour. Only
    /// for tests.
    #[doc(hidden)]
    pub fn max_wait(mut self, time: Duration) -> Self {
        self.waiting.longest = time.min(LONGEST_WAIT);
        self
    }

    /// Sets the longest pause between two questions to the store, 1 second. Only for tests.
    #[doc(hidden)]
    pub fn max_pause(mut self, pause: Duration) -> Self {
        self.waiting.longest_pause = pause.max(Duration::from_millis(1));
        self
    }

    /// Builds the service, for `add_service`. Put the authentication of the other services in front of it, as an interceptor or a layer.
    pub fn build(self) -> OperationServiceServer<OperationService> {
        let Self { layer, waiting } = self;
        OperationServiceServer::new(OperationService::new(layer, waiting)).max_decoding_message_size(LARGEST_REQUEST)
    }
}

impl fmt::Debug for OperationServiceBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperationServiceBuilder").field("waiting", &self.waiting).finish_non_exhaustive()
    }
}
