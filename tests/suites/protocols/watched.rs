//! Counts the calls that a server drops.

use std::{
    pin::Pin,
    sync::atomic::{AtomicUsize, Ordering},
    task::{Context, Poll},
};

use tower_layer::Layer;

use crate::prelude::*;

/// Counts the calls whose futures were dropped before they answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    given_up: Arc<AtomicUsize>,
}

impl Watch {
    pub(crate) fn given_up(&self) -> usize {
        self.given_up.load(Ordering::SeqCst)
    }
}

impl<S> Layer<S> for Watch {
    type Service = Watched<S>;

    fn layer(&self, inner: S) -> Watched<S> {
        Watched { inner, watch: self.clone() }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Watched<S> {
    inner: S,
    watch: Watch,
}

/// Counts the call when dropped.
struct Unanswered(Watch);

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.0.given_up.fetch_add(1, Ordering::SeqCst);
    }
}

impl<S, R> Service<R> for Watched<S>
where
    S: Service<R>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let (future, unanswered) = (self.inner.call(request), Unanswered(self.watch.clone()));
        Box::pin(async move {
            let answer = future.await;
            std::mem::forget(unanswered);
            answer
        })
    }
}
