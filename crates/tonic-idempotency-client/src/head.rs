//! The head of a request, kept to send it again.

use std::time::Duration;

use http::{
    Extensions, HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version, request::Parts, uri::PathAndQuery,
};
use tonic::{GrpcMethod, body::Body};
use tonic_idempotency_wire::headers;

/// The headers that are about one call and its message, and not about its caller.
const OF_ONE_CALL: [&str; 5] =
    [headers::KEY, "content-length", "grpc-accept-encoding", "grpc-encoding", "grpc-timeout"];

/// The time that a call may take, as gRPC has it.
const TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

const PREVIOUS_ATTEMPTS: HeaderName = HeaderName::from_static("grpc-previous-rpc-attempts");

/// The head of a request.
#[derive(Debug)]
pub(crate) struct Head {
    uri: Uri,
    version: Version,
    headers: Vec<(HeaderName, HeaderValue)>,
    extensions: RequestExtensions,
}

/// The extensions of a request.
#[derive(Debug)]
enum RequestExtensions {
    All(Extensions),
    /// Those of a generated client, whose copy takes no memory.
    Method(Option<GrpcMethod<'static>>),
}

impl Head {
    pub(crate) fn of(parts: &Parts) -> Self {
        let method = parts.extensions.get::<GrpcMethod<'static>>();
        let extensions = if parts.extensions.len() == usize::from(method.is_some()) {
            RequestExtensions::Method(method.cloned())
        } else {
            RequestExtensions::All(parts.extensions.clone())
        };
        let headers = parts.headers.iter().map(|(name, value)| (name.clone(), value.clone()));
        Self { uri: parts.uri.clone(), version: parts.version, headers: headers.collect(), extensions }
    }

    /// Returns the key, if the request has one.
    pub(crate) fn key(&self) -> Option<&str> {
        let (_, key) = self.headers.iter().find(|(name, _)| name == headers::KEY)?;
        key.to_str().ok()
    }

    /// Returns the path of the procedure.
    pub(crate) fn procedure(&self) -> &str {
        self.uri.path()
    }

    /// Returns the head for another procedure of the same server, for the same caller.
    pub(crate) fn for_procedure(&self, service: &'static str, method: &'static str) -> Self {
        let mut uri = self.uri.clone().into_parts();
        uri.path_and_query = PathAndQuery::try_from(format!("/{service}/{method}")).ok();
        let headers = self.headers.iter().filter(|(name, _)| !OF_ONE_CALL.contains(&name.as_str())).cloned();
        let extensions = match &self.extensions {
            RequestExtensions::All(extensions) => {
                let mut extensions = extensions.clone();
                extensions.insert(GrpcMethod::new(service, method));
                RequestExtensions::All(extensions)
            }
            RequestExtensions::Method(_) => RequestExtensions::Method(Some(GrpcMethod::new(service, method))),
        };
        let uri = Uri::from_parts(uri).unwrap_or_default();
        Self { uri, version: self.version, headers: headers.collect(), extensions }
    }

    /// Returns the request of an attempt with this body: the server hears how many have been made before
    /// ([gRFC A6](https://github.com/grpc/proposal/blob/master/A6-client-retries.md#exposed-retry-metadata)), and how much is left of the
    /// time that the caller has set.
    pub(crate) fn attempt(&self, body: Body, before: u32, left: Duration) -> Request<Body> {
        let mut request = self.request(body);
        if before > 0 {
            request.headers_mut().insert(PREVIOUS_ATTEMPTS, before.into());
        }
        if let Some(timeout) = request.headers_mut().get_mut(TIMEOUT) {
            // In the form that tonic has for it.
            let mut timed = tonic::Request::new(());
            timed.set_timeout(left);
            if let Some(left) = timed.metadata().as_ref().get(TIMEOUT) {
                *timeout = left.clone();
            }
        }
        request
    }

    /// Returns the request with this body.
    pub(crate) fn request(&self, body: Body) -> Request<Body> {
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.version_mut() = self.version;
        let mut headers = HeaderMap::with_capacity(self.headers.len() + 1);
        for (name, value) in &self.headers {
            headers.append(name, value.clone());
        }
        *request.headers_mut() = headers;
        match &self.extensions {
            RequestExtensions::All(extensions) => request.extensions_mut().extend(extensions.clone()),
            RequestExtensions::Method(Some(method)) => drop(request.extensions_mut().insert(method.clone())),
            RequestExtensions::Method(None) => {}
        }
        request
    }
}
