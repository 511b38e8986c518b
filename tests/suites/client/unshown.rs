//! A server that has not shown the layer for a procedure: it is asked before a call is sent again.

use std::error::Error as _;

use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use tonic_idempotency_client::Unresolved;
use tonic_idempotency_tests::Lines;
use tracing::level_filters::LevelFilter;

use super::foreign::{GET_ORDER, order};
use super::line::{Line, Says};
use super::prelude::*;

const DESCRIBE: &str = "DescribeProcedure";
const SECOND: Duration = Duration::from_secs(1);

/// A request of a new user.
fn request(name: &str) -> Request<shop::proto::CreateOrderRequest> {
    shop::with(order(name), Some(Uuid::new_v4()), None)
}

#[tokio::test(start_paused = true)]
async fn is_asked_once_and_only_if_a_call_is_sent_again() {
    let line = Line::new();
    let mut client = line.client(|layer| layer);
    line.lose(3);
    let user = Uuid::new_v4();
    let response = client.create_order(shop::with(order("shop"), Some(user), None)).await.expect("an order");
    let delivery = Delivery::of(response.extensions());
    assert_eq!((delivery.attempts, delivery.replayed, line.handler.finished()), (4, true, 1));
    assert_eq!(line.calls(), ["CreateOrder", "DescribeProcedure", "CreateOrder", "CreateOrder", "CreateOrder"]);
    assert_eq!(line.users(), [Some(user.to_string())], "it asks as the caller");
    // Another procedure, whose first answer has shown the layer.
    client.touch(request("shop")).await.expect("a reply");
    line.lose(1);
    client.touch(request("shop")).await.expect("a reply");
    assert_eq!(line.calls(), ["Touch"; 3]);
}

#[tokio::test(start_paused = true)]
async fn gets_no_second_attempt_if_it_does_not_protect_the_procedure() {
    let (lines, _guard) = Lines::collect(LevelFilter::WARN);
    for require_protection in [false, true] {
        let line = Line::new();
        // Only the client takes it for one that has keys.
        let mut client = line.client(|layer| {
            let layer = layer.procedure(GET_ORDER);
            if require_protection { layer.require_protection() } else { layer }
        });
        for finished in [1, 2] {
            line.lose(1);
            let error = client.get_order(request("shop")).await.expect_err("the answer was lost");
            assert_eq!((error.code(), error.message()), (Code::Unavailable, "the line was cut"));
            let unresolved = Unresolved::of(&error).expect("it is not known what became of it");
            assert_eq!((unresolved.attempts, unresolved.unprotected), (1, true));
            assert!(unresolved.source().expect("a cause").to_string().contains("does not protect the procedure"));
            assert_eq!(
                (line.calls(), line.handler.finished()),
                (vec!["GetOrder".to_owned(), DESCRIBE.to_owned()], finished)
            );
        }
    }
    assert_eq!(lines.count("its layer does not protect the procedure"), 2, "once for each server");
}

#[tokio::test(start_paused = true)]
async fn gets_further_attempts_if_it_cannot_tell() {
    let page = Line::new();
    page.says(Says::Page(404));
    for line in [Line::without_operations(), page] {
        let mut client = line.client(|layer| layer.procedure(GET_ORDER));
        for (wait, calls) in [
            (Duration::ZERO, vec!["GetOrder", DESCRIBE, "GetOrder"]),
            (Duration::ZERO, vec!["GetOrder", "GetOrder"]),
            (60 * SECOND, vec!["GetOrder", DESCRIBE, "GetOrder"]),
        ] {
            sleep(wait).await;
            line.lose(1);
            let response = client.get_order(request("shop")).await.expect("an order");
            assert_eq!(Delivery::of(response.extensions()).attempts, 2);
            assert_eq!(line.calls(), calls);
        }
        assert_eq!(line.handler.finished(), 6, "each attempt runs, as the server lacks the layer");
    }
}

#[tokio::test(start_paused = true)]
async fn gets_no_second_attempt_while_it_has_no_answer() {
    for (says, least) in [
        (Says::Error(Status::unauthenticated("who is it?")), 9),
        (Says::Error(Status::permission_denied("not for you")), 9),
        (Says::Error(Status::unavailable("away")), 9),
        (Says::Error(Status::new(Code::Ok, "")), 9),
        (Says::Page(502), 9),
        (Says::Nothing, 3),
    ] {
        let line = Line::new();
        let mut client = line.client(|layer| layer.backoff(SECOND / 10, SECOND).operation_timeout(30 * SECOND));
        line.lose(1);
        line.says(says);
        let began = Instant::now();
        let error = client.create_order(request("shop")).await.expect_err("the answer was lost");
        assert!(began.elapsed() <= 30 * SECOND, "{:?}", began.elapsed());
        assert_eq!((error.code(), error.message()), (Code::Unavailable, "the line was cut"));
        let unresolved = Unresolved::of(&error).expect("it is not known what became of it");
        assert_eq!((unresolved.attempts, unresolved.unprotected, line.handler.started()), (1, false, 1));
        let questions = line.users().len();
        assert!((least..10).contains(&questions), "{questions}");
        assert_eq!(line.calls().len(), 1 + questions);
    }
}

#[tokio::test(start_paused = true)]
async fn is_asked_again_until_it_answers() {
    let line = Line::new();
    let mut client = line.client(|layer| layer.backoff(SECOND, SECOND));
    line.lose(1);
    line.says(Says::Error(Status::unavailable("away")));
    let call = tokio::spawn(async move { client.create_order(request("shop")).await });
    sleep(3 * SECOND).await;
    line.says(Says::Truth);
    let response = call.await.expect("no panic").expect("an order");
    assert_eq!((Delivery::of(response.extensions()).attempts, line.handler.finished()), (2, 1));
    assert!(line.users().len() > 1);
}

#[tokio::test(start_paused = true)]
async fn is_asked_once_for_all_calls_that_wait() {
    for is_protected in [true, false] {
        let line = Line::new();
        let client = line.client(|layer| layer.procedure(GET_ORDER).backoff(SECOND / 10, SECOND / 10));
        line.lose(20);
        line.says(Says::TruthAfter(SECOND));
        let mut calls = JoinSet::new();
        for _ in 0..20 {
            let mut client = client.clone();
            calls.spawn(async move {
                let request = request("shop");
                if is_protected { client.create_order(request).await } else { client.get_order(request).await }
            });
        }
        for result in calls.join_all().await {
            assert_eq!(result.is_ok(), is_protected);
        }
        assert_eq!((line.users().len(), line.handler.finished()), (1, 20));
    }
}

#[tokio::test(start_paused = true)]
async fn is_asked_by_the_next_call_if_the_one_that_asks_is_dropped() {
    let line = Line::new();
    let client = line.client(|layer| layer.backoff(SECOND / 10, SECOND / 10));
    line.lose(2);
    line.says(Says::TruthAfter(2 * SECOND));
    let call = |mut client: ShopClient<_>| tokio::spawn(async move { client.create_order(request("shop")).await });
    let first = call(client.clone());
    sleep(SECOND).await;
    let second = call(client);
    sleep(SECOND / 2).await;
    assert_eq!(line.users().len(), 1);
    first.abort();
    second.await.expect("no panic").expect("an order");
    assert_eq!((line.users().len(), line.handler.finished()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn gets_no_second_attempt_beside_the_first_before_it_has_said_so() {
    for (says, calls) in [
        (Says::Truth, vec!["Cancel", DESCRIBE, "Cancel"]),
        (Says::Error(Status::not_found("not protected")), vec!["Cancel", DESCRIBE]),
        (Says::Nothing, vec!["Cancel", DESCRIBE]),
    ] {
        let line = Line::new();
        let mut client = line.client(|layer| layer.hedge_after(SECOND));
        line.says(says);
        let call = tokio::spawn(async move { client.cancel(request("hold")).await });
        sleep(2 * SECOND).await;
        assert_eq!(line.calls(), calls);
        line.handler.open(1);
        call.await.expect("no panic").expect("a reply");
        assert_eq!(line.handler.started(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn is_not_asked_for_a_procedure_that_needs_no_key() {
    let line = Line::new();
    let mut client = line.client(|layer| layer.repeatable(GET_ORDER));
    line.lose(1);
    client.get_order(request("shop")).await.expect("an order");
    assert_eq!(line.calls(), ["GetOrder"; 2]);
}
