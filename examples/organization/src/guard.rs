//! The layers in front of each service.

use tonic::service::{Interceptor, interceptor::InterceptedService};
use tonic_idempotency::IdempotencyLayer;
use tower_layer::Layer;

use crate::auth::Authentication;

/// The layers in front of a service: authentication, then idempotency.
#[derive(Debug)]
pub struct Guard {
    authentication: Authentication,
    idempotency: IdempotencyLayer,
}

impl Guard {
    pub(crate) fn new(authentication: Authentication, idempotency: IdempotencyLayer) -> Self {
        Self { authentication, idempotency }
    }

    /// Puts it around a service.
    pub fn around<S>(
        &self,
        service: S,
    ) -> InterceptedService<<IdempotencyLayer as Layer<S>>::Service, impl Interceptor + Clone + 'static>
    where
        IdempotencyLayer: Layer<S>,
    {
        InterceptedService::new(self.idempotency.layer(service), self.authentication.clone())
    }

    /// The idempotency layer.
    pub fn layer(&self) -> &IdempotencyLayer {
        &self.idempotency
    }

    /// The same with another layer.
    pub fn with_layer(&self, idempotency: IdempotencyLayer) -> Self {
        Self { authentication: self.authentication.clone(), idempotency }
    }

    /// Puts only authentication around a service.
    pub fn authenticating<S>(&self, service: S) -> InterceptedService<S, impl Interceptor + Clone + 'static> {
        InterceptedService::new(service, self.authentication.clone())
    }
}
