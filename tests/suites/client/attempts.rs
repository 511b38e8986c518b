//! Attempts: which answers end an operation, how many attempts there are, and when.

use std::time::Duration;

use tokio::time::Instant;
use tonic::{Code, Request, Status, metadata::MetadataMap};
use tonic_idempotency_client::{Delivery, Reason};
use tonic_idempotency_tests::shop::proto::CreateOrderReply;
use tonic_types::{ErrorDetails, StatusExt as _};

use super::foreign::{Answer, Foreign, GET_ORDER, order};

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
    let server = Foreign::default();
    let limits = (Duration::from_secs(1), Duration::from_secs(4));
    let mut client = server.client(|layer| layer.backoff(limits.0, limits.1).budget(None)).await;
    let mut waited = Vec::new();
    for _ in 0..50 {
        server.fails(std::iter::repeat_n(Status::unavailable(""), 4));
        let asked = Instant::now();
        client.create_order(order("shop")).await.expect("an order");
        waited.push(asked.elapsed());
    }
    // At most 1 + 2 + 4 + 4 seconds, and half of that on average.
    let (longest, mean) = (waited.iter().max().expect("fifty"), waited.iter().sum::<Duration>() / 50);
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
    let mut client = server.client(|layer| layer.max_attempts(u32::MAX).budget(None)).await;
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

#[tokio::test]
async fn of_all_calls_together_have_a_budget() {
    let server = Foreign::default();
    let at_once = Duration::from_millis(1);
    let mut client = server.client(|layer| layer.budget(Some((0.0, 1))).backoff(at_once, at_once)).await;
    server.fails(std::iter::repeat_n(Status::unavailable("down"), 1_000));
    let begun = Instant::now();
    for _ in 0..50 {
        client.create_order(order("shop")).await.expect_err("it is down");
    }
    // 50, and in place of 450 besides one for each second that passes: those of 10 seconds may come at once.
    let most = 50 + 20 + usize::try_from(begun.elapsed().as_secs()).expect("a short time");
    let calls = server.seen().len();
    assert!((50..=most).contains(&calls), "{calls}, and at most {most}");
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
