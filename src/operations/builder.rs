//! [`OperationServiceBuilder`].

use std::{fmt, sync::Arc, time::Duration};

use http::Extensions;

use super::{
    release::Operators,
    service::OperationService,
    wait::Waiting,
    waiters::{Limits, Waiters},
};
use crate::{
    IdempotencyLayer, caller::Caller, proto::v1::operation_service_server::OperationServiceServer, store::OperatorStore,
};

/// The limit of the longest wait: no client waits longer.
const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);

/// The largest message of a request, in bytes.
const LARGEST_REQUEST: usize = 64 << 10;

impl IdempotencyLayer {
    /// Returns a builder of the service that tells callers what became of their calls. It shares the layer's store, and knows the calls
    /// that run in this process; the layer need not be around it. See [`operations`](crate::operations).
    pub fn operations(&self) -> OperationServiceBuilder {
        OperationServiceBuilder {
            layer: self.clone(),
            waiting: Waiting::default(),
            limits: Limits::default(),
            operators: Operators::default(),
        }
    }
}

/// Builds an [`OperationService`].
///
/// ```
/// use std::time::Duration;
/// # use tonic_idempotency::{IdempotencyLayer, proto::FILE_DESCRIPTOR_SET, store::MemoryStore};
///
/// # let store = MemoryStore::new();
/// # let builder = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(store.clone()).allow_no_procedures();
/// # let idempotency = builder.build()?;
/// #[derive(Clone)]
/// struct IsOperator;
///
/// let server = idempotency
///     .operations()
///     .max_wait(Duration::from_secs(60))
///     .max_waiting_per_user(8)
///     // Both are needed before anybody can release a key.
///     .operators(|_caller, extensions| extensions.get::<IsOperator>().is_some())
///     .operator_store(store) // of the operators' own role
///     .build();
/// # drop(server);
/// # Ok::<(), tonic_idempotency::layer::BuildError>(())
/// ```
#[must_use = "a builder does nothing until `build`"]
pub struct OperationServiceBuilder {
    layer: IdempotencyLayer,
    waiting: Waiting,
    limits: Limits,
    operators: Operators,
}

impl OperationServiceBuilder {
    /// Sets the longest time that `WaitOperation` waits, which is also the default of its `timeout`. It ends sooner if the caller's
    /// deadline (`grpc-timeout`) is sooner: a tenth of it, at most a second, is left for the answer. At most 1 hour. Defaults to 30 seconds.
    pub fn max_wait(mut self, time: Duration) -> Self {
        self.waiting.longest = time.min(LONGEST_WAIT);
        self
    }

    /// Sets the longest pause between two questions to the store while `WaitOperation` waits. One question is for all requests that wait for
    /// a key. The pauses grow from 50 milliseconds, to a fifth of the time waited so far, and each is shortened at random by up to a half.
    /// The end of a call that runs in this process is noticed at once. At least 1 millisecond. Defaults to 1 second.
    pub fn max_pause(mut self, pause: Duration) -> Self {
        self.waiting.longest_pause = pause.max(Duration::from_millis(1));
        self
    }

    /// Sets the maximum number of requests that wait, of all users; 0 for none. Further ones are refused with `UNAVAILABLE`,
    /// `IDEMPOTENCY_OVERLOADED`. A waiting request holds no connection, and a few kilobytes of memory. Defaults to 1,024.
    pub fn max_waiting(mut self, requests: usize) -> Self {
        self.limits.all = requests;
        self
    }

    /// Sets the maximum number of requests of one user that wait; 0 for none. A user counts in each scope as a user of its own. Further
    /// ones are refused with `RESOURCE_EXHAUSTED`, `IDEMPOTENCY_OVERLOADED`. Defaults to 32.
    pub fn max_waiting_per_user(mut self, requests: usize) -> Self {
        self.limits.of_user = requests;
        self
    }

    /// Sets who may release keys: the caller, and the extensions that the authentication has put into the request. Others are refused with
    /// `PERMISSION_DENIED`. Defaults to nobody.
    pub fn operators(mut self, is_operator: impl Fn(&Caller, &Extensions) -> bool + Send + Sync + 'static) -> Self {
        self.operators.is_operator = Some(Box::new(is_operator));
        self
    }

    /// Sets the store that releases keys: a `PostgresStore` on a pool of its own, whose role has the rights of an operator
    /// (`migrations::grant_operator`). The role of the layer's store has not, and must not have them. Without one, operators are answered
    /// with `UNIMPLEMENTED`. Defaults to none.
    pub fn operator_store(mut self, store: impl OperatorStore) -> Self {
        self.operators.store = Some(Box::new(store));
        self
    }

    /// Builds the service, for `add_service`. Put the authentication of the other services in front of it, as an interceptor or a layer.
    pub fn build(self) -> OperationServiceServer<OperationService> {
        let Self { layer, waiting, limits, operators } = self;
        OperationServiceServer::new(OperationService::new(layer, waiting, Waiters::new(limits), Arc::new(operators)))
            .max_decoding_message_size(LARGEST_REQUEST)
    }
}

impl fmt::Debug for OperationServiceBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { waiting, limits, operators, .. } = self;
        f.debug_struct("OperationServiceBuilder")
            .field("waiting", waiting)
            .field("limits", limits)
            .field("operators", operators)
            .finish_non_exhaustive()
    }
}
