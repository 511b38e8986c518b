//! A machine that stands still, as a laptop whose lid is closed: what was due meanwhile is due at once, and keys may have expired.

use std::{
    collections::VecDeque,
    future::{Ready, ready},
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use futures_util::future::poll_immediate;
use http_body_util::Full;
use tokio::time::{Sleep, advance, sleep};
use tonic::body::Body;
use tonic_idempotency_client::{IdempotencyClient, Unresolved, WorkError, completed, journal::EntryOutcome};
use tower::Service;

use super::foreign::order;
use super::prelude::*;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// A server whose next answers are these: `true` means that it is processing, `false` that it is away.
struct Server {
    answers: Arc<Mutex<VecDeque<bool>>>,
    sent: Arc<AtomicUsize>,
    /// The time until a clone is ready.
    warm_up: Duration,
    is_ready: Option<std::pin::Pin<Box<Sleep>>>,
}

impl Server {
    fn new(answers: impl IntoIterator<Item = bool>) -> Self {
        let answers = Arc::new(Mutex::new(answers.into_iter().collect()));
        Self { answers, sent: Arc::default(), warm_up: Duration::ZERO, is_ready: None }
    }

    fn sent(&self) -> usize {
        self.sent.load(Ordering::Relaxed)
    }

    fn client(&self, set: impl FnOnce(Layer) -> Layer) -> IdempotencyClient<Self> {
        let layer = IdempotencyClientLayer::builder(FILE_DESCRIPTOR_SET).backoff(SECOND, SECOND);
        set(layer).build().expect("the layer").layer(self.clone())
    }
}

type Layer = tonic_idempotency_client::IdempotencyClientBuilder;

impl Clone for Server {
    fn clone(&self) -> Self {
        let (answers, sent) = (Arc::clone(&self.answers), Arc::clone(&self.sent));
        Self { answers, sent, warm_up: self.warm_up, is_ready: None }
    }
}

impl Service<http::Request<Body>> for Server {
    type Response = http::Response<Body>;
    type Error = Status;
    type Future = Ready<Result<Self::Response, Status>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        let time = self.warm_up;
        // The first attempt finds it ready.
        if self.sent() == 0 || time.is_zero() {
            return Poll::Ready(Ok(()));
        }
        self.is_ready.get_or_insert_with(|| Box::pin(sleep(time))).as_mut().poll(cx).map(Ok)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        if request.uri().path().contains("OperationService") {
            return ready(Ok(Status::unimplemented("").into_http()));
        }
        self.sent.fetch_add(1, Ordering::Relaxed);
        let answer = self.answers.lock().expect("no panic").pop_front();
        ready(Ok(match answer.expect("it is sent no more often") {
            true => http::Response::builder()
                .header("content-type", "application/grpc")
                .header("grpc-status", "0")
                .header("idempotency-status", "processing")
                .header("idempotency-expires", "600")
                .header("idempotent-replayed", "true")
                .body(Body::new(Full::new(vec![0; 5].into())))
                .expect("a response"),
            false => Status::unavailable("away").into_http(),
        }))
    }
}

/// Polls a future once, and lets the machine stand still for an hour.
async fn stands_still<F: Future>(mut future: std::pin::Pin<&mut F>) {
    assert!(poll_immediate(&mut future).await.is_none(), "it waits");
    advance(HOUR).await;
}

#[tokio::test(start_paused = true)]
async fn sends_no_attempt_whose_time_is_over() {
    let server = Server::new([false]);
    let mut client = ShopClient::new(server.client(|layer| layer));
    let mut call = pin!(client.create_order(order("shop")));
    stands_still(call.as_mut()).await;
    let error = call.await.expect_err("it is over");
    assert_eq!((error.message(), server.sent()), ("away", 1));
    assert!(Unresolved::of(&error).is_some(), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn sends_no_attempt_that_has_waited_for_its_connection() {
    let mut server = Server::new([false]);
    server.warm_up = 5 * SECOND;
    let mut client = ShopClient::new(server.client(|layer| layer));
    let mut call = pin!(client.create_order(order("shop")));
    assert!(poll_immediate(&mut call).await.is_none(), "it pauses");
    advance(SECOND).await;
    stands_still(call.as_mut()).await;
    assert!(Unresolved::of(&call.await.expect_err("it is over")).is_some());
    assert_eq!(server.sent(), 1);
}

#[tokio::test(start_paused = true)]
async fn makes_no_replay_whose_key_has_expired() {
    let server = Server::new([true, true, true]);
    let mut client = ShopClient::new(server.client(|layer| layer));
    let response = client.create_order(order("shop")).await.expect("an order");
    let mut work = pin!(completed(&response).pauses(60 * SECOND, 60 * SECOND).into_future());
    assert!(poll_immediate(&mut work).await.is_none(), "it looks, and pauses");
    advance(60 * SECOND).await;
    stands_still(work.as_mut()).await;
    assert!(matches!(work.await, Err(WorkError::KeyExpires)));
    assert_eq!(server.sent(), 2, "the call, and one replay");
}

/// The journal's entries live shorter than an operation here: as if one had been taken at the end of its life.
#[tokio::test(start_paused = true)]
async fn sends_no_entry_that_has_expired() {
    for is_resumed in [false, true] {
        let server = Server::new([false; 2]);
        let journal = Journal::builder().in_place().max_age(10 * SECOND).in_memory().expect("a journal");
        let service = server.client(|layer| layer.journal(journal.clone()).max_attempts(1 + u32::from(!is_resumed)));
        let mut client = ShopClient::new(service.clone());
        let mut sent = 1;
        {
            let mut call = pin!(client.create_order(order("shop")));
            if !is_resumed {
                assert!(poll_immediate(&mut call).await.is_none(), "it pauses");
                advance(20 * SECOND).await;
            }
            assert!(Unresolved::of(&call.await.expect_err("it is away")).is_some_and(|call| call.in_journal));
        }
        if is_resumed {
            let service = server.client(|layer| layer.journal(journal.clone()));
            let mut resumed = pin!(journal.resume(service));
            assert!(poll_immediate(&mut resumed).await.is_none(), "it is sent, and pauses");
            advance(20 * SECOND).await;
            assert!(matches!(resumed.await[..], [ref entry] if matches!(entry.outcome, EntryOutcome::Unresolved(_))));
            sent += 1;
        }
        let resumed = journal.resume(service).await;
        assert!(
            matches!(resumed[..], [ref entry] if matches!(entry.outcome, EntryOutcome::Expired { .. })),
            "{resumed:?}"
        );
        assert_eq!(server.sent(), sent, "{is_resumed}");
    }
}
