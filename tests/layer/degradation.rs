//! A store that is away: before the call, and while it runs.

use std::time::Duration;

use tonic::Code;
use tonic_idempotency::{PostgresStore, Reason, Stage};
use tonic_idempotency_tests::{Database, Proxy, until};
use tonic_types::StatusExt as _;

use crate::{duplicates::resource_types, harness::Shop};

async fn shop() -> (Shop, Proxy, Database) {
    let database = Database::new().await;
    let (proxy, pool) = database.pool_through_proxy(4).await;
    let store = PostgresStore::new(pool, resource_types()).timeout(Duration::from_secs(30));
    (Shop::on(store).await, proxy, database)
}

#[tokio::test]
async fn runs_the_handler_unprotected_by_default() {
    let (shop, proxy, _database) = shop().await;
    proxy.cut();
    for finished in 1..=2 {
        let seen = shop.create("a").await.expect("a call");
        assert_eq!((seen.status, seen.replayed), (None, None));
        assert_eq!(shop.handler.finished(), finished);
    }
    assert_eq!(shop.create("fail").await.expect_err("the handler fails").code(), Code::NotFound);
    assert_eq!(shop.create("panic").await.expect_err("the handler panics").code(), Code::Internal);
    proxy.mend();
    shop.create("a").await.expect("the first call").assert("processing", false);
}

#[tokio::test]
async fn refuses_the_call_where_the_procedure_says_so() {
    let (shop, proxy, _database) = shop().await;
    proxy.cut();
    let status = shop.pay("a").await.expect_err("refused");
    assert_eq!((status.code(), Reason::of(&status)), (Code::Unavailable, Some(Reason::StoreUnavailable)));
    assert!(status.get_details_retry_info().is_some_and(|info| info.retry_delay.is_some()));
    assert_eq!(shop.handler.started(), 0);
    proxy.mend();
    shop.pay("a").await.expect("the first call").assert("processing", false);
}

#[tokio::test]
async fn returns_a_response_that_cannot_be_recorded_and_records_it_later() {
    let (shop, proxy, _database) = shop().await;
    let client = shop.with_key(shop.key);
    let call = tokio::spawn(async move { client.create("hold").await });
    until("the handler runs", async || shop.handler.started() == 1).await;
    proxy.cut();
    shop.handler.open(1);
    let first = call.await.expect("no panic").expect("the handler succeeded");
    first.assert("processing", false);

    proxy.mend();
    let status = shop.create("hold").await.expect_err("not recorded yet");
    assert_eq!(Reason::of(&status), Some(Reason::InProgress));
    until("the outcome is recorded", async || shop.create("hold").await.is_ok()).await;
    let replay = shop.create("hold").await.expect("a replay");
    replay.assert("processing", true);
    assert_eq!(replay.message, first.message);
    assert_eq!(shop.handler.started(), 1);
}

#[tokio::test]
async fn releases_later_a_key_that_cannot_be_released_now() {
    let (shop, proxy, _database) = shop().await;
    let client = shop.with_key(shop.key);
    let call = tokio::spawn(async move { client.create("hold and fail").await });
    until("the handler runs", async || shop.handler.started() == 1).await;
    proxy.cut();
    shop.handler.open(1);
    assert_eq!(call.await.expect("no panic").expect_err("the handler failed").code(), Code::NotFound);

    proxy.mend();
    until("the key is free", async || shop.create("a").await.is_ok()).await;
    assert_eq!(shop.handler.finished(), 1);
}

#[tokio::test]
async fn a_shutdown_waits_for_outcomes_that_are_not_recorded_yet() {
    let (shop, proxy, database) = shop().await;
    let owner = database.owner().await;
    let client = shop.with_key(shop.key);
    let call = tokio::spawn(async move { client.create("hold").await });
    until("the handler runs", async || shop.handler.started() == 1).await;
    proxy.cut();
    shop.handler.open(1);
    call.await.expect("no panic").expect("the handler succeeded");
    let left = shop.layer.shut_down(Duration::from_millis(50)).await.left;
    assert_eq!(left.iter().map(|call| call.stage).collect::<Vec<_>>(), [Stage::Recording]);

    proxy.mend();
    assert!(shop.layer.shut_down(Duration::from_secs(30)).await.left.is_empty());
    let completed = owner.query("SELECT FROM tenant.idempotency_keys WHERE response_bytes IS NOT NULL", &[]).await;
    assert_eq!(completed.expect("the rows").len(), 1);
}
