//! Shows each attempt of a call, and loses the answers of some.

use std::{
    collections::HashSet,
    convert::Infallible,
    future::pending,
    pin::Pin,
    process::{self, Command},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    task::{Context, Poll},
};

use http::{Request, Response};
use tcp_proxy::{Cut, Direction, Moment, Proxy};
use tonic::{Code, Status, body::Body, transport::Channel};
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
        let Some(call) = described_call(&request) else {
            self.is_new.store(false, Ordering::SeqCst);
            let sent = self.channel.call(request);
            return Box::pin(async move { Ok(sent.await?) });
        };
        let (fate, show) = (request.extensions().get().cloned(), self.show.clone());
        match fate {
            Some(Fate::Unsent(death)) => Box::pin(async move {
                show.line(&format!("{call}: written down, and not sent"));
                match death.finds(call).await {}
            }),
            Some(Fate::Unanswered(death)) => {
                let sent = self.channel.call(request);
                Box::pin(async move {
                    let answer = sent.await?;
                    if failure(&answer).is_some() {
                        return Ok(answer);
                    }
                    show.line(&format!("{call}: carried out, and not answered"));
                    match death.finds(call).await {}
                })
            }
            None => {
                self.arm();
                show.line(&call);
                let sent = self.channel.call(request);
                Box::pin(async move {
                    let answer = sent.await;
                    show.line(&format!("    {}", described(&answer)));
                    Ok(answer?)
                })
            }
        }
    }
}

/// How far a call comes before its client is killed: an extension of its request. Without one, it is answered.
#[derive(Clone, Debug)]
pub(crate) enum Fate {
    /// It is carried out.
    Unanswered(Arc<Death>),
    /// It is in the journal.
    Unsent(Arc<Death>),
}

/// The end of this process, when it finds its calls where they were to come to.
#[derive(Debug)]
pub(crate) struct Death {
    calls: u32,
    found: Mutex<HashSet<String>>,
}

impl Death {
    /// Kills this process when that many calls have come there.
    pub(crate) fn after(calls: u32) -> Self {
        Self { calls, found: Mutex::default() }
    }

    /// This call has come there. It goes no further.
    async fn finds(&self, call: String) -> Infallible {
        let found = {
            let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
            found.insert(call);
            found.len()
        };
        if found == self.calls as usize {
            // Nothing is closed, flushed or told. The second way is for a system without the first.
            let _ = Command::new("kill").args(["-9", &process::id().to_string()]).status();
            process::abort();
        }
        pending().await
    }
}

/// Describes a call; `None` if it has no key.
fn described_call(request: &Request<Body>) -> Option<String> {
    let key = request.headers().get("idempotency-key")?.to_str().ok()?;
    let method = request.uri().path().rsplit('/').next()?;
    Some(format!("  {method}, key {key}"))
}

fn described(answer: &Result<Response<Body>, tonic::transport::Error>) -> String {
    let Ok(response) = answer else { return "the connection broke: no answer".to_owned() };
    if let Some(status) = failure(response) {
        return format!("{:?}: {}", status.code(), status.message());
    }
    let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
    let replayed = if header("idempotent-replayed") == Some("true") { ", replayed" } else { "" };
    format!("answered{replayed}; the work behind it: {}", header("idempotency-status").unwrap_or("not told"))
}

fn failure(response: &Response<Body>) -> Option<Status> {
    Status::from_header_map(response.headers()).filter(|status| status.code() != Code::Ok)
}
