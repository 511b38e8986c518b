//! A server that may lack the layer, and what its attempts tell it.

use tonic_idempotency_client::Unresolved;
use tonic_idempotency_tests::Lines;
use tracing::level_filters::LevelFilter;

use super::foreign::{CREATE_ORDER, Foreign, order};
use super::prelude::*;

#[tokio::test(start_paused = true)]
async fn is_missed_once_with_a_warning() {
    let server = Foreign::default();
    let (lines, _guard) = Lines::collect(LevelFilter::WARN);
    let mut client = server.client(|layer| layer).await;
    client.create_order(order("shop")).await.expect("an order");
    // An error has no status, and the call of a procedure that takes no key has none.
    server.fails([Status::not_found("")]);
    client.create_order(order("shop")).await.expect_err("an error");
    server.lacks_status(true);
    client.get_order(order("shop")).await.expect("an order");
    assert_eq!(lines.count("has no idempotency-status"), 0);
    for _ in 0..3 {
        client.create_order(order("shop")).await.expect("an order");
    }
    assert_eq!(lines.count("has no idempotency-status"), 1);
    // Without more being asked of it, the layer goes on.
    server.fails([Status::unavailable("away")]);
    let response = client.create_order(order("shop")).await.expect("an order");
    assert_eq!(Delivery::of(response.extensions()).attempts, 2);
}

#[tokio::test]
async fn that_is_required_allows_no_second_attempt_until_an_answer_has_it() {
    for has_journal in [false, true] {
        let server = Foreign::default();
        let journal = Journal::builder().in_memory().expect("a journal");
        let with = journal.clone();
        let mut client =
            server.client(|layer| if has_journal { layer.journal(with) } else { layer.require_protection() }).await;
        // Nothing is known of the server yet.
        server.fails([Status::unavailable("away")]);
        server.lacks_status(true);
        client.create_order(order("shop")).await.expect("an order");
        assert_eq!(server.seen().len(), 2);
        server.fails([Status::unavailable("away")]);
        let refused = client.create_order(order("shop")).await.expect_err("no second attempt");
        let unresolved = Unresolved::of(&refused).expect("it is not known what became of it");
        assert_eq!((unresolved.in_journal, unresolved.attempts, server.seen().len()), (has_journal, 1, 1));
        if has_journal {
            let layer = IdempotencyClientLayer::builder(FILE_DESCRIPTOR_SET).journal(journal.clone());
            let service = layer.build().expect("the layer").layer(server.channel().await);
            // The new client knows nothing of the server until its first answer.
            let mut other = ShopClient::new(service.clone());
            other.create_order(order("shop")).await.expect("an order");
            server.seen();
            let resumed = journal.resume(service).await;
            assert_eq!(resumed.len(), 1, "{resumed:?}");
            assert!(server.seen().is_empty(), "it might run twice");
        }
        server.lacks_status(false);
        client.create_order(order("shop")).await.expect("an order");
        server.fails([Status::unavailable("away")]);
        client.create_order(order("shop")).await.expect("an order");
    }
}

/// As gRFC A6 has it.
#[tokio::test(start_paused = true)]
async fn is_asked_with_the_time_that_is_left_and_the_number_of_attempts_before() {
    let server = Foreign::default();
    let second = Duration::from_secs(1);
    let mut client = server.client(|layer| layer.backoff(second, second)).await;
    server.fails(std::iter::repeat_n(Status::unavailable("away"), 3));
    let mut request = Request::new(order("shop"));
    request.set_timeout(Duration::from_secs(30));
    client.create_order(request).await.expect("an order");
    let seen = server.seen();
    let before =
        |number: usize| seen[number].headers.get("grpc-previous-rpc-attempts").map(|it| it.to_str().expect("text"));
    assert_eq!([before(0), before(1), before(2), before(3)], [None, Some("1"), Some("2"), Some("3")]);
    let left: Vec<u64> = seen
        .iter()
        .map(|call| {
            let text = call.headers["grpc-timeout"].to_str().expect("text");
            let (number, unit) = text.split_at(text.len() - 1);
            number.parse::<u64>().expect("a number")
                * match unit {
                    "S" => 1_000_000,
                    "m" => 1_000,
                    "u" => 1,
                    other => panic!("{other}"),
                }
        })
        .collect();
    assert!(left[0] == 30_000_000 && left.is_sorted_by(|one, next| one >= next) && left[3] < 30_000_000, "{left:?}");
    // A call without a time of its own has none.
    server.fails([Status::unavailable("away")]);
    client.create_order(order("shop")).await.expect("an order");
    assert!(server.seen().iter().all(|call| !call.headers.contains_key("grpc-timeout")));
}

#[tokio::test(start_paused = true)]
async fn gets_a_key_without_the_quotes_of_its_header_in_the_field() {
    let server = Foreign::default();
    let mut client = server.client(|layer| layer.key_field(CREATE_ORDER, "request_id")).await;
    let mut request = Request::new(order("shop"));
    request.metadata_mut().insert("idempotency-key", "\"k-1\"".parse().expect("metadata"));
    client.create_order(request).await.expect("an order");
    let seen = server.seen();
    assert_eq!((seen[0].key(), &*seen[0].message.request_id), (Some("\"k-1\""), "k-1"));
}

#[test]
fn has_a_key_of_at_most_255_characters() {
    assert!(OperationKey::from_text(&"k".repeat(255)).is_some());
    for text in ["k".repeat(256), "k".repeat(10_000), String::new()] {
        assert!(OperationKey::from_text(&text).is_none(), "{}", text.len());
    }
}
