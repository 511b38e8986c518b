//! Shows each attempt of a call, and loses the answers of some.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    task::{Context, Poll},
};

use http::{Request, Response};
use tcp_proxy::{Cut, Direction, Moment, Proxy};
use tonic::{Status, body::Body, transport::Channel};
use tower_service::Service;

use crate::{Error, show::Show};

/// How many bytes of the server still arrive on a new connection whose answer is lost: HTTP/2 is set up, and that is all.
const SET_UP: usize = 120;

/// A connection that shows what goes over it. It is inside of the client's layer, which makes the attempts.
#[derive(Clone)]
pub(crate) struct Attempts {
    channel: Channel,
    /// Whether the next attempt makes a new connection.
    is_new: Arc<AtomicBool>,
    /// The number of attempts whose answers are still to be lost.
    pub(crate) losses: Arc<AtomicU32>,
    proxy: Arc<Proxy>,
    show: Show,
}

impl Attempts {
    pub(crate) fn new(channel: Channel, proxy: Arc<Proxy>, show: Show) -> Self {
        Self { channel, is_new: Arc::new(AtomicBool::new(true)), losses: Arc::default(), proxy, show }
    }

    /// Arms the proxy to cut the connection in the answer, if one is to be lost.
    fn arm(&self) {
        let was_new = self.is_new.swap(false, Ordering::SeqCst);
        let left = self.losses.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if left.is_ok() {
            let left = if was_new { SET_UP } else { 0 };
            let is_new = Arc::clone(&self.is_new);
            let cut = Cut { all: true, moment: Moment::Bytes { direction: Direction::Answers, left } };
            self.proxy.cut_later(cut, move || is_new.store(true, Ordering::SeqCst));
        }
    }
}

impl Service<Request<Body>> for Attempts {
    type Response = Response<Body>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.channel.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let method = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
        let key = request.headers().get("idempotency-key").and_then(|key| key.to_str().ok()).map(str::to_owned);
        if key.is_some() {
            self.arm();
            self.show.line(&format!("  {method}, key {}", key.as_deref().unwrap_or_default()));
        }
        let (sent, show) = (self.channel.call(request), self.show.clone());
        Box::pin(async move {
            let answer = sent.await;
            if key.is_some() {
                show.line(&format!("    {}", described(&answer)));
            }
            Ok(answer?)
        })
    }
}

fn described(answer: &Result<Response<Body>, tonic::transport::Error>) -> String {
    let Ok(response) = answer else { return "the connection broke: no answer".to_owned() };
    if let Some(status) = Status::from_header_map(response.headers()).filter(|status| status.code() != tonic::Code::Ok)
    {
        return format!("{:?}: {}", status.code(), status.message());
    }
    let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
    let replayed = if header("idempotent-replayed") == Some("true") { ", replayed" } else { "" };
    format!("answered{replayed}; the work behind it: {}", header("idempotency-status").unwrap_or("not told"))
}
