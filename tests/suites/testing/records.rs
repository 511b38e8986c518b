//! Records, as a harness shows them.

use tonic_idempotency::status::{IdempotencyStatus, OutboxStatus};
use tonic_idempotency_tests::shop::{
    self, Counting, FILE_DESCRIPTOR_SET,
    proto::{CreateOrderReply, PayReply, shop_client::ShopClient},
};

use super::prelude::*;

fn lamp() -> shop::proto::CreateOrderRequest {
    shop::request("lamp", None, None).into_inner()
}

#[tokio::test]
async fn is_completed_with_the_resource_whose_status_a_replay_reports() {
    let handler = Counting::default();
    let harness = Harness::new(FILE_DESCRIPTOR_SET, shop::server(handler.clone()));
    let mut client = ShopClient::new(harness.channel());
    let key = Uuid::new_v4();
    let first = harness.call(key, lamp(), |request| client.create_order(request)).await;
    let first = first.executed_once().with_status(IdempotencyStatus::Processing).into_message();

    let record = harness.record(key).await;
    let resource = record.resource().expect("an order").clone();
    assert_eq!(first.order.as_ref().expect("an order").id, resource.to_string());
    assert_eq!(record.completed::<CreateOrderReply>(), first);
    harness.store().set_status(resource, OutboxStatus::Completed);
    let retry = harness.call(key, lamp(), |request| client.create_order(request)).await;
    retry.replayed().with_status(IdempotencyStatus::Completed);
    assert_eq!((harness.runs(), handler.finished()), (1, 1));
}

/// A test can check that a secret is not stored.
#[tokio::test]
async fn does_not_contain_what_is_redacted() {
    let harness = Harness::new(FILE_DESCRIPTOR_SET, shop::server(Counting::default()));
    let mut client = ShopClient::new(harness.channel());
    let key = Uuid::new_v4();
    let first = harness.call(key, lamp(), |request| client.pay(request)).await.executed_once().into_message();
    let stored: PayReply = harness.record(key).await.completed();
    assert_eq!((&*first.secret, &*stored.secret), ("hidden", ""));
    assert_eq!(stored.payment_id, first.payment_id);
}

#[tokio::test]
async fn is_not_stored_if_the_response_is_too_large() {
    let build = |store| {
        let procedure = Procedure::builder("/shop.v1.Shop/CreateOrder").creates("order", "order.id");
        IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(store).procedure(procedure).max_response_bytes(10).build()
    };
    let harness = Harness::with_layer(MemoryStore::new(), build, shop::server(Counting::default()));
    let mut client = ShopClient::new(harness.channel());
    let key = Uuid::new_v4();
    harness.call(key, lamp(), |request| client.create_order(request)).await.executed_once();
    let record = harness.record(key).await;
    assert!(matches!(record, Record::NotStored { .. }) && record.resource().is_some(), "{record:?}");
    harness.call(key, lamp(), |request| client.create_order(request)).await.refused_with(Reason::NotStored);
}

/// A test that looks at a record changes nothing.
#[tokio::test]
async fn stays_as_it_is_when_a_test_looks() {
    let harness = Harness::new(FILE_DESCRIPTOR_SET, shop::server(Counting::default()));
    let mut client = ShopClient::new(harness.channel());
    let (key, failed) = (Uuid::new_v4(), Uuid::new_v4());
    let fail = || shop::request("fail", None, None).into_inner();
    harness.call(key, lamp(), |request| client.touch(request)).await.executed_once();
    harness.call(failed, fail(), |request| client.touch(request)).await.failed_with(tonic::Code::NotFound);
    for _ in 0..3 {
        assert!(matches!(harness.record(key).await, Record::Completed { .. }));
        harness.record(failed).await.absent();
    }
    assert_eq!(harness.store().len(), 1);
    harness.call(failed, fail(), |request| client.touch(request)).await.failed_with(tonic::Code::NotFound);
}

/// Two harnesses on one store, as two servers on one table.
#[tokio::test]
async fn is_of_another_call_if_another_server_has_made_it() {
    let store = MemoryStore::new();
    let build = |store| IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(store).build();
    let harness = Harness::with_layer(store.clone(), build, shop::server(Counting::default()));
    let other = Harness::with_layer(store, build, shop::server(Counting::default()));
    let other = other.as_caller(harness.caller().expect("a caller").clone());
    let (mut client, mut others) = (ShopClient::new(harness.channel()), ShopClient::new(other.channel()));
    let key = Uuid::new_v4();
    harness.call(key, lamp(), |request| client.touch(request)).await.executed_once();
    harness.advance(Duration::from_secs(24 * 3600));
    other.call(key, lamp(), |request| others.pay(request)).await.executed_once();
    assert_eq!(harness.record(key).await, Record::OfAnotherCall);
    other.call(key, lamp(), |request| others.pay(request)).await.replayed();
}

#[tokio::test]
#[should_panic(expected = "expected no record; but the record says that the call succeeded")]
async fn is_not_absent_if_there_is_one() {
    let harness = Harness::new(FILE_DESCRIPTOR_SET, shop::server(Counting::default()));
    let mut client = ShopClient::new(harness.channel());
    let key = Uuid::new_v4();
    harness.call(key, lamp(), |request| client.touch(request)).await.executed_once();
    harness.record(key).await.absent();
}

#[tokio::test]
#[should_panic(expected = "expected the record of a call that succeeded; but the store keeps no record of the key")]
async fn is_not_completed_if_there_is_none() {
    let harness = Harness::new(FILE_DESCRIPTOR_SET, shop::server(Counting::default()));
    harness.record(Uuid::new_v4()).await.completed::<PayReply>();
}
