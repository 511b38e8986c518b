//! Calls at once.

use tokio::sync::Barrier;
use tonic_idempotency::{policy::InProgressPolicy, store::Store, testing::AtOnce};

use super::prelude::*;
use super::{
    assertions::panic_of,
    harness::{Orders, create, harness, on, order, transactional},
};

async fn at_once<S: Store>(
    harness: &Harness<S>,
    orders: &OrderServiceClient<InProcess>,
    item: &str,
) -> AtOnce<CreateOrderResponse> {
    let send = async |request| orders.clone().create_order(request).await;
    harness.at_once(20, Uuid::new_v4(), order(item), send).await
}

#[tokio::test]
async fn run_once_and_the_others_are_in_progress_or_replayed() {
    let (aborting, orders) = harness(create, |procedure| procedure);
    let calls = at_once(&aborting, &orders, "lamp").await.into_calls();
    assert_eq!(calls.iter().filter(|call| call.reason() == Some(Reason::InProgress)).count(), 19);
    at_once(&aborting, &orders, "lamp").await.executed_once().executed_once();
    assert_eq!(aborting.runs(), 2);

    let wait = InProgressPolicy::Wait;
    let (waiting, orders) = harness(create, |procedure| procedure.on_in_progress(wait));
    let calls = at_once(&waiting, &orders, "lamp").await.into_calls();
    let (executed, others): (Vec<_>, Vec<_>) = calls.into_iter().partition(|call| call.runs() == 1);
    assert_eq!((executed.len(), others.len()), (1, 19));
    others.into_iter().for_each(|call| drop(call.replayed()));
    at_once(&waiting, &orders, "lamp").await.executed_once();
}

#[tokio::test(flavor = "multi_thread")]
async fn run_once_on_postgres() {
    let database = Database::new().await;
    for describe in [transactional, |procedure| procedure] {
        let (harness, orders) = on(database.store(), create, describe);
        at_once(&harness, &orders, "lamp").await.executed_once();
        assert_eq!(harness.runs(), 1);
    }
}

#[tokio::test]
async fn say_how_they_have_ended_if_none_of_them_succeeds() {
    let (harness, orders) = harness(create, |procedure| procedure);
    let said = panic_of(async || _ = at_once(&harness, &orders, "nothing").await.executed_once()).await;
    let expected =
        "expected one of 20 calls to run its handler and succeed, and the others to be replays or in progress; but\n";
    assert!(said.starts_with(expected), "{said}");
    assert!(said.contains("1: the handler ran once, and the call failed (NOT_FOUND: no such item)"), "{said}");
    assert!(
        said.contains("19: the handler did not run, and the layer refused the call with IDEMPOTENCY_IN_PROGRESS"),
        "{said}"
    );
}

/// A handler that waits for all of them shows that they are under way at the same time.
#[tokio::test]
async fn say_that_several_of_them_run_if_the_layer_does_not_protect_them() {
    let all = Arc::new(Barrier::new(20));
    let handler = move |request: Request<_>| {
        let all = Arc::clone(&all);
        async move {
            all.wait().await;
            create(request).await
        }
    };
    let unprotected = |_| IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).build(); // the store is missing
    let harness = Harness::with_layer(MemoryStore::new(), unprotected, OrderServiceServer::new(Orders(handler)));
    let orders = OrderServiceClient::new(harness.channel());
    let said = panic_of(async || _ = at_once(&harness, &orders, "lamp").await.executed_once()).await;
    assert!(said.contains("20: the handler ran once, and the layer did not protect the call"), "{said}");
}

#[tokio::test]
async fn are_not_refused_for_another_reason() {
    let (harness, orders) = harness(create, |procedure| procedure);
    harness.refuse(Reason::Overloaded);
    let said = panic_of(async || _ = at_once(&harness, &orders, "lamp").await.executed_once()).await;
    assert!(
        said.contains("1: the handler did not run, and the layer refused the call with IDEMPOTENCY_OVERLOADED"),
        "{said}"
    );
    assert_eq!(harness.runs(), 1, "one ran");
}

/// An error that is recorded is replayed to the others, and is no success.
#[tokio::test]
async fn are_not_executed_if_their_error_is_final() {
    let wait = InProgressPolicy::Wait;
    let (harness, orders) = harness(create, |procedure| procedure.final_errors([Code::NotFound]).on_in_progress(wait));
    let said = panic_of(async || _ = at_once(&harness, &orders, "nothing").await.executed_once()).await;
    assert!(said.contains("19: the handler did not run, and the error is a replay"), "{said}");
}
