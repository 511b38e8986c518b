//! The channel from a client to the service of a harness.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;
use http::{Extensions, Request, Response};
use tonic::{Status, body::Body, codegen::StdError};
use tower_service::Service;

use super::{probe::HarnessCall, server::Server};
use crate::{Caller, UserId};

/// The channel of a [`Harness`](super::Harness): sends the calls of a client to its service, in this process.
#[derive(Clone)]
pub struct InProcess {
    server: Arc<Server>,
    /// The caller of requests that have none.
    caller: Option<Caller>,
}

impl InProcess {
    pub(super) fn new(server: Arc<Server>, caller: Option<Caller>) -> Self {
        Self { server, caller }
    }

    /// Returns the attempt of a call that the harness made, with its caller in the request. Any other request gets the channel's
    /// caller, unless it has one.
    fn attempt(&self, extensions: &mut Extensions) -> HarnessCall {
        if let Some(attempt) = extensions.get::<HarnessCall>() {
            return attempt.clone();
        }
        let has_caller = extensions.get::<Caller>().is_some() || extensions.get::<UserId>().is_some();
        if let Some(caller) = self.caller.clone().filter(|_| !has_caller) {
            extensions.insert(caller);
        }
        HarnessCall::default()
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

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let attempt = self.attempt(request.extensions_mut());
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
