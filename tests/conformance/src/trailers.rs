//! Trailers of successful responses, which tonic does not let handlers set.

use std::task::{Context, Poll};

use futures_util::{FutureExt as _, future::BoxFuture};
use http::{HeaderMap, Request, Response};
use http_body::Frame;
use http_body_util::BodyExt as _;
use tonic::{body::Body, server::NamedService};
use tower::Service;

/// The trailers of a response, in its extensions.
#[derive(Clone, Debug)]
pub(crate) struct Trailers(pub(crate) HeaderMap);

/// A tonic service whose handlers can set trailers.
#[derive(Clone, Debug)]
pub(crate) struct WithTrailers<S>(pub(crate) S);

impl<S> Service<Request<Body>> for WithTrailers<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<Body>, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.0.call(request).map(|response| response.map(append)).boxed()
    }
}

impl<S: NamedService> NamedService for WithTrailers<S> {
    const NAME: &'static str = S::NAME;
}

fn append(mut response: Response<Body>) -> Response<Body> {
    let Some(Trailers(trailers)) = response.extensions_mut().remove() else { return response };
    response.map(|body| {
        Body::new(body.map_frame(move |frame| match frame.into_trailers() {
            Ok(mut all) => {
                all.extend(trailers.clone());
                Frame::trailers(all)
            }
            Err(frame) => frame,
        }))
    })
}
