//! Our server, with its operations, at the end of a line that loses answers. It notes the calls, and a test decides what it says of procedures.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;
use tonic::{
    body::Body,
    service::{Routes, interceptor::InterceptedService},
};
use tonic_idempotency::{IdempotencyLayer, store::MemoryStore};
use tonic_idempotency_client::{IdempotencyClient, IdempotencyClientBuilder};
use tonic_idempotency_tests::shop::Counting;
use tower::Service;

use super::prelude::*;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Our server at the end of a line. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Line {
    pub(crate) handler: Counting,
    routes: Routes,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    calls: Vec<String>,
    /// The number of answers of handlers that are still to be lost.
    lost: usize,
    says: Says,
    users: Vec<Option<String>>,
}

/// The answer of the server when it is asked for a procedure.
#[derive(Clone, Default)]
pub(crate) enum Says {
    Error(Status),
    /// A page of a proxy, with this HTTP status.
    Page(u16),
    /// Nothing, for ever.
    Nothing,
    /// Its own.
    #[default]
    Truth,
    /// The same, after this time.
    TruthAfter(Duration),
}

impl Line {
    pub(crate) fn new() -> Self {
        Self::with(|routes, layer| {
            routes.add_service(InterceptedService::new(layer.operations().build(), shop::authenticate))
        })
    }

    /// A server that does not know the service.
    pub(crate) fn without_operations() -> Self {
        Self::with(|routes, _| routes)
    }

    fn with(add: impl FnOnce(Routes, &IdempotencyLayer) -> Routes) -> Self {
        let handler = Counting::default();
        let layer =
            IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(MemoryStore::new()).build().expect("the layer");
        let wrapped = InterceptedService::new(layer.layer(shop::server(handler.clone())), shop::authenticate);
        Self { handler, routes: add(Routes::new(wrapped), &layer), state: Arc::default() }
    }

    /// Loses the next answers of handlers.
    pub(crate) fn lose(&self, answers: usize) {
        self.state().lost = answers;
    }

    pub(crate) fn says(&self, says: Says) {
        self.state().says = says;
    }

    /// The methods that were called since the last look.
    pub(crate) fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.state().calls)
    }

    /// The users who have asked for a procedure since the last look.
    pub(crate) fn users(&self) -> Vec<Option<String>> {
        std::mem::take(&mut self.state().users)
    }

    /// A client with the layer.
    pub(crate) fn client(
        &self,
        set: impl FnOnce(IdempotencyClientBuilder) -> IdempotencyClientBuilder,
    ) -> ShopClient<IdempotencyClient<Self>> {
        let layer = set(IdempotencyClientLayer::builder(FILE_DESCRIPTOR_SET)).build().expect("the layer");
        ShopClient::new(layer.layer(self.clone()))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic")
    }
}

impl Service<http::Request<Body>> for Line {
    type Response = http::Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let (line, mut routes) = (self.clone(), self.routes.clone());
        Box::pin(async move {
            let method = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
            let is_question = method == "DescribeProcedure";
            line.state().calls.push(method);
            if is_question {
                let user = request.headers().get("user").map(|user| user.to_str().expect("text").to_owned());
                let says = line.state().says.clone();
                line.state().users.push(user);
                match says {
                    Says::Error(status) => return Ok(status.into_http()),
                    Says::Page(status) => {
                        return Ok(http::Response::builder().status(status).body(Body::empty()).expect("a response"));
                    }
                    Says::Nothing => std::future::pending().await,
                    Says::Truth => {}
                    Says::TruthAfter(time) => tokio::time::sleep(time).await,
                }
            }
            let response = routes.call(request).await.map_err(BoxError::from)?;
            let mut state = line.state();
            if !is_question && state.lost > 0 {
                state.lost -= 1;
                return Err(Status::unavailable("the line was cut").into());
            }
            Ok(response)
        })
    }
}
