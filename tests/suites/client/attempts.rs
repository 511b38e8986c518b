//! Attempts: which answers end an operation, how many attempts there are, and when.

use bytes::Bytes;
use futures_util::stream;
use http_body::Frame;
use http_body_util::StreamBody;
use tokio::time::Instant;
use tonic::metadata::MetadataMap;
use tonic_idempotency_client::{Reason, Unresolved};
use tonic_idempotency_tests::shop::proto::CreateOrderReply;
use tonic_types::{ErrorDetails, StatusExt as _};

use super::foreign::{Answer, Foreign, GET_ORDER, order};
use super::prelude::*;

fn rejected(code: Code, reason: Reason) -> Status {
    Status::with_error_details(code, "", ErrorDetails::with_error_info(reason.as_str(), "tonic-idempotency", []))
}

#[tokio::test(start_paused = true)]
async fn end_with_the_first_answer_that_no_retry_can_change() {
    let server = Foreign::default();
    let mut client = server.client(|layer| layer).await;
    for reason in [Reason::KeyExpired, Reason::KeyReused, Reason::KeyInvalid, Reason::OutcomeUnknown] {
        server.fails([Status::unavailable(""), rejected(Code::FailedPrecondition, reason)]);
        let refused = client.create_order(order("shop")).await.expect_err("a refusal");
        assert_eq!((Reason::of(&refused), server.seen().len()), (Some(reason), 2));
    }
    for code in [Code::Internal, Code::NotFound, Code::Aborted, Code::Unknown] {
        server.fails([Status::new(code, "")]);
        let refused = client.create_order(order("shop")).await.expect_err("an error");
        assert_eq!((refused.code(), server.seen().len()), (code, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn are_counted_on_the_response() {
    let server = Foreign::default();
    let mut client = server.client(|layer| layer).await;
    for failures in [0, 1, 4] {
        server.fails(std::iter::repeat_n(Status::unavailable(""), failures));
        let response = client.create_order(order("shop")).await.expect("an order");
        let delivery = Delivery::of(response.extensions());
        assert_eq!((delivery.attempts as usize, delivery.replayed), (failures + 1, false));
    }
}

#[tokio::test(start_paused = true)]
async fn wait_as_long_as_the_server_says() {
    let server = Foreign::default();
    let mut client = server.client(|layer| layer).await;
    let mut details = ErrorDetails::with_retry_info(Some(Duration::from_secs(7)));
    details.set_error_info(Reason::InProgress.as_str(), "tonic-idempotency", []);
    let mut pushback = MetadataMap::new();
    pushback.insert("grpc-retry-pushback-ms", "7000".parse().expect("metadata"));
    for status in
        [Status::with_error_details(Code::Aborted, "", details), Status::with_metadata(Code::Unavailable, "", pushback)]
    {
        let asked = Instant::now();
        server.fails([status]);
        client.create_order(order("shop")).await.expect("an order");
        let waited = asked.elapsed();
        assert!((Duration::from_secs(7)..Duration::from_secs(8)).contains(&waited), "{waited:?}");
    }
    let mut never = MetadataMap::new();
    never.insert("grpc-retry-pushback-ms", "-1".parse().expect("metadata"));
    server.fails([Status::with_metadata(Code::Unavailable, "", never)]);
    client.create_order(order("shop")).await.expect_err("the server says never");
}

#[tokio::test(start_paused = true)]
async fn pause_longer_and_longer_at_random() {
    // As many as the budget of all calls together allows.
    const CALLS: u32 = 25;

    let server = Foreign::default();
    let limits = (Duration::from_secs(1), Duration::from_secs(4));
    let mut client = server.client(|layer| layer.backoff(limits.0, limits.1)).await;
    let mut waited = Vec::new();
    for _ in 0..CALLS {
        server.fails(std::iter::repeat_n(Status::unavailable(""), 4));
        let asked = Instant::now();
        client.create_order(order("shop")).await.expect("an order");
        waited.push(asked.elapsed());
    }
    // At most 1 + 2 + 4 + 4 seconds, and half of that on average.
    let (longest, mean) = (waited.iter().max().expect("some"), waited.iter().sum::<Duration>() / CALLS);
    assert!(*longest <= Duration::from_secs(11), "{longest:?}");
    assert!((Duration::from_secs(4)..Duration::from_secs(7)).contains(&mean), "{mean:?}");
}

#[tokio::test(start_paused = true)]
async fn end_with_their_number() {
    let server = Foreign::default();
    let mut client = server.client(|layer| layer.max_attempts(3)).await;
    server.fails(std::iter::repeat_n(Status::unavailable("down"), 10));
    let refused = client.create_order(order("shop")).await.expect_err("it is down");
    assert_eq!((refused.code(), refused.message(), server.seen().len()), (Code::Unavailable, "down", 3));
}

#[tokio::test(start_paused = true)]
async fn end_with_the_time_of_the_operation() {
    let server = Foreign::default();
    let mut client = server.client(|layer| layer.max_attempts(u32::MAX)).await;
    for own in [None, Some(Duration::from_secs(5))] {
        server.fails(std::iter::repeat_n(Status::unavailable("down"), 1_000));
        let asked = Instant::now();
        let mut request = Request::new(order("shop"));
        own.into_iter().for_each(|own| request.set_timeout(own));
        let refused = client.create_order(request).await.expect_err("it is down");
        assert_eq!(refused.message(), "down", "the last answer");
        let (time, waited) = (own.unwrap_or(Duration::from_secs(60)), asked.elapsed());
        assert!(waited <= time && waited + Duration::from_secs(6) > time, "{waited:?} of {time:?}");
    }
}

/// Their servers ignore it, too.
#[tokio::test(start_paused = true)]
async fn do_not_end_with_a_time_that_is_no_grpc_timeout() {
    let server = Foreign::default();
    let mut client = server.client(|layer| layer.max_attempts(u32::MAX)).await;
    for malformed in ["+5S", "000000005S", "5s", "5"] {
        server.fails(std::iter::repeat_n(Status::unavailable("down"), 1_000));
        let asked = Instant::now();
        let mut request = Request::new(order("shop"));
        request.metadata_mut().insert("grpc-timeout", malformed.parse().expect("metadata"));
        client.create_order(request).await.expect_err("it is down");
        let waited = asked.elapsed();
        assert!(waited > Duration::from_secs(50), "{malformed}: {waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn do_not_wait_for_ever_for_one_answer() {
    let server = Foreign::default();
    let mut client = server.client(|layer| layer.attempt_timeout(Duration::from_secs(2)).max_attempts(3)).await;
    server.answers([Answer::Nothing, Answer::Nothing]);
    let response = client.create_order(order("shop")).await.expect("an order");
    assert_eq!(Delivery::of(response.extensions()).attempts, 3);
    server.answers([Answer::Nothing, Answer::Nothing, Answer::Nothing]);
    let refused = client.create_order(order("shop")).await.expect_err("it does not answer");
    assert_eq!(refused.code(), Code::DeadlineExceeded);
}

/// Handlers that take longer than an attempt may. A request for a running call is no further attempt, and one that replaces an attempt
/// does not use the budget, so that each of many slow calls at once gets its answer.
#[tokio::test(start_paused = true)]
async fn of_slow_calls_end_with_the_time_of_the_operation_alone() {
    let server = Foreign::default();
    let client = server.client(|layer| layer).await;
    let running = || Answer::Error(rejected(Code::Aborted, Reason::InProgress));
    server.answers((0..200).map(|_| Answer::Nothing).chain((0..4000).map(|_| running())));
    let calls = (0..200).map(|_| {
        let mut client = client.clone();
        async move { client.create_order(order("shop")).await }
    });
    let asked = Instant::now();
    let answers = futures_util::future::join_all(calls).await;
    let attempts = answers.into_iter().map(|answer| Delivery::of(answer.expect("an order").extensions()).attempts);
    assert_eq!(attempts.collect::<Vec<_>>(), [2; 200]);
    assert!(asked.elapsed() > Duration::from_secs(19), "{:?}", asked.elapsed());
    // They are not asked for without a pause, and not for ever.
    server.answers((0..100_000).map(|_| running()));
    let mut client = client;
    let refused = client.create_order(order("shop")).await.expect_err("it runs all the time");
    assert_eq!(Reason::of(&refused), Some(Reason::InProgress));
    assert!(server.seen().len() < 4200 + 1_200);
}

/// A client whose server answers with frames of this size, without end.
fn endless(frame: usize) -> impl Future<Output = (Result<(), Status>, Duration)> {
    let layer =
        IdempotencyClientLayer::builder(FILE_DESCRIPTOR_SET).attempt_timeout(Duration::from_secs(1)).max_attempts(2);
    let body = move || {
        let frames = stream::repeat_with(move || Ok::<_, Status>(Frame::data(Bytes::from(vec![0; frame]))));
        tonic::body::Body::new(StreamBody::new(frames))
    };
    let service = tower::service_fn(move |_: http::Request<tonic::body::Body>| {
        let response = http::Response::builder().header("content-type", "application/grpc").body(body());
        std::future::ready(response)
    });
    let mut client = ShopClient::new(layer.build().expect("the layer").layer(service));
    async move {
        let asked = std::time::Instant::now();
        let answer = client.create_order(order("shop")).await;
        (answer.map(drop), asked.elapsed())
    }
}

#[tokio::test]
async fn collect_no_answer_without_end() {
    let (large, _) = endless(1 << 16).await;
    let large = large.expect_err("it has no end");
    assert_eq!(large.code(), Code::OutOfRange, "{large:?}");
    assert_eq!(Unresolved::of(&large).map(|call| call.attempts), Some(1), "what became of it is not known");
    // Even a body that is always ready lets the time of the attempt pass.
    let (empty, took) = endless(0).await;
    assert_eq!(empty.expect_err("it has no end").code(), Code::DeadlineExceeded);
    assert!(took < Duration::from_secs(30), "{took:?}");
}

#[tokio::test]
async fn of_all_calls_together_have_a_budget() {
    let server = Foreign::default();
    let at_once = Duration::from_millis(1);
    let mut client = server.client(|layer| layer.backoff(at_once, at_once)).await;
    server.fails(std::iter::repeat_n(Status::unavailable("down"), 2_000));
    let begun = Instant::now();
    for _ in 0..100 {
        client.create_order(order("shop")).await.expect_err("it is down");
    }
    // 100, and in place of 900 besides a fifth of them and ten for each second that passes: those of 10 seconds may come at once.
    let most = 100 + 20 + 110 + 10 * usize::try_from(begun.elapsed().as_secs()).expect("a short time");
    let calls = server.seen().len();
    assert!((100..=most).contains(&calls), "{calls}, and at most {most}");
}

#[tokio::test(start_paused = true)]
async fn of_calls_without_a_key_are_made_once_unless_they_are_repeatable() {
    let server = Foreign::default();
    let mut client = server.client(|layer| layer).await;
    server.fails([Status::unavailable("")]);
    client.get_order(order("shop")).await.expect_err("it is made once");
    let mut client = server.client(|layer| layer.repeatable(GET_ORDER)).await;
    server.fails([Status::unavailable("")]);
    client.get_order(order("shop")).await.expect("an order");
    assert!(server.seen().iter().all(|call| call.key().is_none()));
}

/// A second attempt waits for the first one at the server.
#[tokio::test(start_paused = true)]
async fn are_made_beside_each_other_where_the_server_lets_the_second_wait() {
    let server = Foreign::default();
    let mut client = server.client(|layer| layer.hedge_after(Duration::from_millis(300))).await;
    server.answers([Answer::Nothing]);
    let asked = Instant::now();
    let response = client.cancel(order("shop")).await.expect("it is cancelled");
    assert_eq!(Delivery::of(response.extensions()).attempts, 2);
    assert!(asked.elapsed() < Duration::from_secs(1));
    let seen = server.seen();
    assert_eq!((seen.len(), seen[0].key()), (2, seen[1].key()));

    // The server of this procedure refuses the second as long as the first runs.
    server.answers([Answer::Nothing]);
    let response: tonic::Response<CreateOrderReply> = client.create_order(order("shop")).await.expect("an order");
    assert_eq!(Delivery::of(response.extensions()).attempts, 2);
    assert!(asked.elapsed() > Duration::from_secs(10), "after the time of an attempt");
}
