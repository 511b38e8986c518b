//! The layer of a client in front of a harness.

use tonic_idempotency::{Caller, Scope, UserId};
use tonic_idempotency_client::{
    Delivery, IdempotencyClient, IdempotencyClientLayer, OperationKey, Unresolved, journal::Journal,
};

use super::prelude::*;
use super::{
    assertions::panic_of,
    harness::{Orders, call, create, harness, order},
};

type Service = IdempotencyClient<InProcess>;

/// A client with a journal, which makes at most three attempts.
fn client(channel: InProcess) -> (OrderServiceClient<Service>, Service, Journal) {
    let (layer, journal) = layer();
    let service = layer.layer(channel);
    (OrderServiceClient::new(service.clone()), service, journal)
}

fn layer() -> (IdempotencyClientLayer, Journal) {
    let journal = Journal::builder().in_memory().expect("a journal");
    let pause = Duration::from_millis(1);
    let layer = IdempotencyClientLayer::builder(FILE_DESCRIPTOR_SET).journal(journal.clone());
    (layer.max_attempts(3).backoff(pause, pause).build().expect("a layer"), journal)
}

async fn left(journal: &Journal) -> usize {
    journal.entries().await.expect("the entries").len()
}

#[tokio::test]
async fn gets_a_replay_if_answers_are_lost_and_none_if_requests_are() {
    for replayed in [true, false] {
        let (harness, _) = harness(create, |procedure| procedure);
        let (mut orders, _, journal) = client(harness.channel());
        if replayed {
            harness.lose_answers(2)
        } else {
            harness.lose_requests(2)
        }
        let response = orders.create_order(order("lamp")).await.expect("an order");
        let delivery = Delivery::of(response.extensions());
        assert_eq!((delivery.attempts, delivery.replayed), (3, replayed));
        assert_eq!((harness.runs(), left(&journal).await), (1, 0));
    }
}

/// A call through the layer of a client may have several attempts. Its assertions are about the client's result.
#[tokio::test]
async fn is_unanswered_if_its_last_attempt_is() {
    let (harness, _) = harness(create, |procedure| procedure);
    let (mut orders, ..) = client(harness.channel());
    harness.lose_requests(2);
    let called = harness.call(Uuid::new_v4(), order("lamp"), |request| orders.create_order(request)).await;
    let said = panic_of(async || _ = called.executed_once().unanswered()).await;
    assert!(said.starts_with("expected no answer; but the handler ran once, and the call succeeded"), "{said}");
    harness.lose_requests(3);
    harness.call(Uuid::new_v4(), order("lamp"), |request| orders.create_order(request)).await.unanswered();
}

#[tokio::test]
async fn keeps_a_call_whose_answers_are_all_lost_for_the_next_process() {
    let (harness, _) = harness(create, |procedure| procedure);
    let (mut orders, service, journal) = client(harness.channel());
    harness.lose_answers(3);
    let unresolved = orders.create_order(order("lamp")).await.expect_err("no answer");
    assert!(Unresolved::of(&unresolved).expect("it is unresolved").in_journal);
    assert_eq!(left(&journal).await, 1);
    journal.resume(service).await;
    assert_eq!((harness.runs(), left(&journal).await), (1, 0));
}

#[tokio::test]
async fn outlives_a_server_that_dies() {
    let (harness, _) = harness(create, |procedure| procedure);
    let (mut orders, service, journal) = client(harness.channel());
    harness.lose_answers(1);
    harness.refuse(Reason::InProgress);
    orders.create_order(order("lamp")).await.expect("an order");
    assert_eq!((harness.runs(), left(&journal).await), (1, 0));

    // A lease is left behind, and the client asks again until the call's time is over.
    harness.crash_before_record();
    let mut request = Request::new(order("chair"));
    request.set_timeout(Duration::from_millis(100));
    orders.create_order(request).await.expect_err("it is in progress for too long");
    harness.advance(Duration::from_secs(60));
    journal.resume(service).await;
    assert_eq!((harness.runs(), left(&journal).await), (3, 0));
}

#[tokio::test]
async fn goes_on_or_ends_as_a_refusal_says() {
    for (reason, attempts) in
        [(Reason::Conflict, 2), (Reason::InProgress, 1), (Reason::KeyReused, 0), (Reason::TooManyRecords, 0)]
    {
        let (harness, _) = harness(create, |procedure| procedure);
        let (mut orders, _, journal) = client(harness.channel());
        harness.refuse(reason);
        match orders.create_order(order("lamp")).await {
            Ok(response) => assert_eq!(Delivery::of(response.extensions()).attempts, attempts, "{reason}"),
            Err(refused) => assert_eq!((Reason::of(&refused), attempts), (Some(reason), 0)),
        }
        assert_eq!((harness.runs(), left(&journal).await), (usize::from(attempts > 0), 0), "{reason}");
    }
}

#[tokio::test]
async fn is_refused_for_any_reason() {
    let (harness, orders) = harness(create, |procedure| procedure);
    for &reason in Reason::ALL {
        harness.refuse(reason);
        call(&harness, &orders, Uuid::new_v4(), "lamp").await.refused_with(reason);
    }
    assert_eq!(harness.runs(), 0);
    call(&harness, &orders, Uuid::new_v4(), "lamp").await.executed_once();
}

/// Its calls are those of the harness's caller, unless they say something else.
#[tokio::test]
async fn calls_as_the_caller_of_its_channel() {
    let (harness, _) = harness(create, |procedure| procedure);
    let other =
        harness.as_caller(Caller::new(UserId::new(Uuid::new_v4())).in_scope(Scope::from_text("acme").expect("an id")));
    let user = UserId::new(Uuid::new_v4());
    let key = Uuid::new_v4();
    let request = || {
        let mut request = Request::new(order("lamp"));
        request.extensions_mut().insert(OperationKey::from(key));
        request
    };
    let records = async || {
        let mut records = Vec::new();
        for caller in [&harness, &other, &harness.as_caller(user.clone())] {
            records.push(caller.record(key).await.expires_in().is_some());
        }
        records
    };
    client(harness.channel()).0.create_order(request()).await.expect("an order");
    assert_eq!(records().await, [true, false, false]);
    client(other.channel()).0.create_order(request()).await.expect("an order");
    assert_eq!(records().await, [true, true, false]);
    let mut of_the_user = request();
    of_the_user.extensions_mut().insert(user.clone());
    client(harness.channel()).0.create_order(of_the_user).await.expect("an order");
    assert_eq!(records().await, [true; 3]);

    let nobody = client(harness.without_caller().channel()).0.create_order(request()).await.expect_err("nobody calls");
    assert_eq!((nobody.code(), Reason::of(&nobody)), (Code::Unauthenticated, Some(Reason::NoUser)));
    assert_eq!(harness.runs(), 3);
}

/// Without the layer, the generated server is the channel.
#[tokio::test]
async fn finds_a_server_without_the_layer() {
    let (layer, journal) = layer();
    let mut orders = OrderServiceClient::new(layer.layer(OrderServiceServer::new(Orders(create))));
    let response = orders.create_order(order("lamp")).await.expect("an order");
    assert_eq!(response.metadata().get("idempotency-status"), None);
    assert_eq!(left(&journal).await, 0);
}
