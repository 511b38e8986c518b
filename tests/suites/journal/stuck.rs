//! Entries that do not end by being sent again: they fail at once, or are sent seldom, and the log says why.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    sync::atomic::{AtomicUsize, Ordering},
};

use http_body_util::Full;
use tonic::body::Body;
use tonic_idempotency_client::Reason;
use tonic_types::{ErrorDetails, StatusExt as _};
use tower::service_fn;

use super::prelude::*;
use super::{
    foreign::{CREATE_ORDER, Foreign, is_question},
    harness::{Setup, in_memory, kept, key, keyed, layer},
};

type Page = http::Response<Body>;

/// A client whose calls with these keys have found the server away.
async fn left(journal: Journal, keys: &[&str]) -> Setup {
    let mut setup = Setup::with(Foreign::default(), journal, |layer| layer.max_attempts(1)).await;
    setup.leave(keys).await;
    setup
}

async fn states(setup: &Setup) -> Vec<EntryState> {
    setup.journal.entries().await.expect("the entries").iter().map(|entry| entry.state).collect()
}

/// A server that always answers the same, and counts its calls. It is not ours.
fn always(
    answer: impl Fn() -> Page + Clone + Send + Sync + 'static,
    calls: &Arc<AtomicUsize>,
) -> impl tower::Service<http::Request<Body>, Response = Page, Error = Infallible, Future = Ready<Result<Page, Infallible>>>
+ Clone
+ Send
+ Sync
+ 'static {
    let calls = Arc::clone(calls);
    service_fn(move |request| {
        if is_question(&request) {
            return ready(Ok(Status::unimplemented("").into_http()));
        }
        calls.fetch_add(1, Ordering::Relaxed);
        ready(Ok(answer()))
    })
}

fn refused(reason: Reason) -> Status {
    let details = ErrorDetails::with_error_info(reason.as_str(), "tonic-idempotency", []);
    Status::with_error_details(Code::FailedPrecondition, "", details)
}

/// A response of 4,096 bytes.
fn large(has_status: bool) -> Page {
    let frame = [&[0, 0, 0, 16, 0][..], &[0; 4096]].concat();
    let page = http::Response::builder().header("content-type", "application/grpc");
    let page = if has_status { page.header("idempotency-status", "completed") } else { page };
    page.body(Body::new(Full::new(Bytes::from(frame)))).expect("a response")
}

#[tokio::test]
async fn that_can_never_be_sent_have_failed_at_once() {
    let setup = left(in_memory(|journal| journal), &["k-1"]).await;
    let small = layer(&setup.journal, |layer| layer.max_request_bytes(1)).layer(setup.server.channel().await);
    setup.server.fails([refused(Reason::KeyExpired)]);
    for (service, code) in [(small, Code::ResourceExhausted), (setup.service.clone(), Code::FailedPrecondition)] {
        let resumed = setup.journal.resume(service).await;
        let outcome = &resumed[0].outcome;
        assert!(matches!(outcome, EntryOutcome::Failed(error) if error.code() == code), "{outcome:?}");
        assert_eq!(states(&setup).await, [EntryState::Failed]);
        setup.journal.send_again(&key("k-1")).await.expect("an entry");
    }
}

#[tokio::test]
async fn that_wait_for_somebody_are_sent_seldom_and_said_once_a_minute() {
    type Case<'a> = (fn() -> Page, &'a str);
    let answers: [Case<'_>; 5] = [
        (|| refused(Reason::OutcomeUnknown).into_http(), "IDEMPOTENCY_OUTCOME_UNKNOWN"),
        (|| refused(Reason::StoreFailed).into_http(), "IDEMPOTENCY_STORE_FAILED"),
        (|| Status::permission_denied("no grant").into_http(), "PermissionDenied"),
        (|| http::Response::builder().status(404).body(Body::empty()).expect("a page"), "HTTP 404"),
        (|| large(false), "a response that is too large"),
    ];
    for (answer, reason) in answers {
        let (lines, _guard) = Lines::collect(LevelFilter::WARN);
        let journal = in_memory(|journal| journal.pauses(Duration::from_millis(50), Duration::from_secs(60)));
        let setup = left(journal, &["k-1", "k-2", "k-3"]).await;
        let sent = Arc::default();
        let service = layer(&setup.journal, |layer| layer.max_attempts(1).max_response_bytes(10));
        let service = service.layer(always(answer, &sent));
        tokio::time::pause();
        let worker = setup.journal.spawn(service);
        tokio::time::sleep(Duration::from_secs(300)).await;
        worker.shut_down().await;
        tokio::time::resume();
        let (sent, said) = (sent.load(Ordering::Relaxed), lines.count(&format!("reason=\"{reason}\"")));
        assert!((15..=36).contains(&sent) && (3..=6).contains(&said), "{reason}: {sent} {said} in five minutes");
        assert!(lines.count(CREATE_ORDER) == said && setup.keys().await.len() == 3, "{}", lines.take());
    }
}

#[tokio::test]
async fn whose_response_is_too_large_have_ended_if_its_head_says_so() {
    for has_status in [true, false] {
        let setup = left(in_memory(|journal| journal), &["k-1"]).await;
        let service = layer(&setup.journal, |layer| layer.max_response_bytes(10));
        let service = service.layer(always(move || large(has_status), &Arc::default()));
        let resumed = setup.journal.resume(service.clone()).await;
        let (EntryOutcome::Failed(error) | EntryOutcome::Unresolved(error)) = &resumed[0].outcome else {
            panic!("{resumed:?}")
        };
        assert!(error.code() == Code::OutOfRange && error.message().contains("4096 bytes"), "{error:?}");
        assert_eq!(states(&setup).await, [if has_status { EntryState::Failed } else { EntryState::Waiting }]);
        let error = ShopClient::new(service).create_order(keyed("shop", "k-2")).await.expect_err("it is too large");
        assert!(error.code() == Code::OutOfRange && error.message().contains("4096 bytes"), "{error:?}");
        assert_eq!(kept(&error), (!has_status).then(|| key("k-2")));
    }
}

#[tokio::test]
async fn whose_callback_panics_stay_and_others_go_on() {
    let (lines, _guard) = Lines::collect(LevelFilter::WARN);
    let journal = in_memory(|journal| {
        journal.pauses(Duration::from_millis(1), Duration::from_secs(60)).on_outcome(|resumed| async move {
            assert!(resumed.key != key("k-1"), "a bug of the application");
        })
    });
    let setup = left(journal, &["k-1", "k-2"]).await;
    let worker = setup.journal.spawn(setup.service.clone());
    until("the second has ended", async || setup.keys().await == ["k-1"]).await;
    worker.shut_down().await;
    let resumed = setup.journal.resume(setup.service.clone()).await;
    assert!(matches!(&resumed[..], [one] if matches!(one.outcome, EntryOutcome::Answered(_))), "{resumed:?}");
    assert_eq!((states(&setup).await, lines.count("on_outcome has panicked")), (vec![EntryState::Waiting], 1));
}
