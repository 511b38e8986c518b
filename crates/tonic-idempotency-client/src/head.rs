//! The head of a request, kept to send it again.

use http::{
    Extensions, HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version, request::Parts, uri::PathAndQuery,
};
use tonic::{GrpcMethod, body::Body};
use tonic_idempotency_wire::headers;

/// The headers that are about one call and its message, and not about its caller.
const OF_ONE_CALL: [&str; 5] =
    [headers::KEY, "content-length", "grpc-accept-encoding", "grpc-encoding", "grpc-timeout"];

/// The head of a request.
#[derive(Debug)]
pub(crate) struct Head {
    uri: Uri,
    version: Version,
    headers: Vec<(HeaderName, HeaderValue)>,
    extensions: Kept,
}

/// The extensions of a request.
#[derive(Debug)]
enum Kept {
    All(Extensions),
    /// Those of a generated client, whose copy takes no memory.
    Method(Option<GrpcMethod<'static>>),
}

impl Head {
    pub(crate) fn of(parts: &Parts) -> Self {
        let method = parts.extensions.get::<GrpcMethod<'static>>();
        let extensions = if parts.extensions.len() == usize::from(method.is_some()) {
            Kept::Method(method.cloned())
        } else {
            Kept::All(parts.extensions.clone())
        };
        let headers = parts.headers.iter().map(|(name, value)| (name.clone(), value.clone()));
        Self { uri: parts.uri.clone(), version: parts.version, headers: headers.collect(), extensions }
    }

    /// Returns the key, if the request has one.
    pub(crate) fn key(&self) -> Option<&str> {
        let (_, key) = self.headers.iter().find(|(name, _)| name == headers::KEY)?;
        key.to_str().ok()
    }

    /// Returns the head for another procedure of the same server, for the same caller.
    pub(crate) fn for_procedure(&self, service: &'static str, method: &'static str) -> Self {
        let mut uri = self.uri.clone().into_parts();
        uri.path_and_query = PathAndQuery::try_from(format!("/{service}/{method}")).ok();
        let headers = self.headers.iter().filter(|(name, _)| !OF_ONE_CALL.contains(&name.as_str())).cloned();
        let extensions = match &self.extensions {
            Kept::All(extensions) => {
                let mut extensions = extensions.clone();
                extensions.insert(GrpcMethod::new(service, method));
                Kept::All(extensions)
            }
            Kept::Method(_) => Kept::Method(Some(GrpcMethod::new(service, method))),
        };
        let uri = Uri::from_parts(uri).unwrap_or_default();
        Self { uri, version: self.version, headers: headers.collect(), extensions }
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
            Kept::All(extensions) => request.extensions_mut().extend(extensions.clone()),
            Kept::Method(Some(method)) => drop(request.extensions_mut().insert(method.clone())),
            Kept::Method(None) => {}
        }
        request
    }
}
