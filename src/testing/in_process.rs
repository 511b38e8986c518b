//! [`InProcess`].

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;
use http::{Request, Response};
use tonic::{Status, body::Body, codegen::StdError};
use tower_service::Service;

use super::{probe::Attempt, server::Server};

/// The channel of a [`Harness`](super::Harness): sends the calls of a generated client to its service, in this process.
#[derive(Clone)]
pub struct InProcess {
    server: Arc<Server>,
}

impl InProcess {
    pub(super) fn new(server: Arc<Server>) -> Self {
        Self { server }
    }
}

impl Service<Request<Body>> for InProcess {
    type Response = Response<Body>;
    type Error = StdError;
    type Future = BoxFuture<'static, Result<Response<Body>, StdError>>;

    /// Always ready: each call waits for its own clone of the service.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), StdError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let attempt = request.extensions().get::<Attempt>().cloned().unwrap_or_default();
        let answer = Arc::clone(&self.server).answer(request);
        Box::pin(async move {
            let answer = answer.await;
            attempt.set_unanswered(answer.is_none());
            let broken = || Err(Status::unavailable("the connection broke before an answer came").into());
            answer.unwrap_or_else(broken)
        })
    }
}

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcess").finish_non_exhaustive()
    }
}
