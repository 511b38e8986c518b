use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{Extensions, Request, Response};
use tonic::{body::Body, codegen::StdError};
use tower::{Service, ServiceExt as _, util::BoxCloneService};

pub(super) type Grpc = BoxCloneService<Request<Body>, Response<Body>, StdError>;

/// The gRPC service that a call is for. It rides along in the call's extensions, so that one translator serves any.
///
/// Taken once: it is the one that was polled ready, and may hold what it needs to be called, such as a permit.
#[derive(Clone)]
pub(super) struct Inner(Arc<Mutex<Option<Grpc>>>);

impl Inner {
    pub(super) fn new<S, R>(service: S) -> Self
    where
        S: Service<Request<Body>, Response = Response<R>> + Clone + Send + 'static,
        S::Error: Into<StdError>,
        S::Future: Send + 'static,
        R: http_body::Body<Data = Bytes> + Send + 'static,
        R::Error: Into<StdError>,
    {
        let service = service.map_response(|response| response.map(Body::new)).map_err(Into::into);
        Self(Arc::new(Mutex::new(Some(BoxCloneService::new(service)))))
    }

    /// Takes the service out of a call's extensions.
    pub(super) fn take(extensions: &mut Extensions) -> Option<Grpc> {
        let inner: Self = extensions.remove()?;
        inner.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
