//! The layer on Redis: its calls, and the settings with which it is not built.

use std::{net::TcpListener, time::Duration};

use quickstart::FILE_DESCRIPTOR_SET;
use tonic::{Code, Response};
use tonic_idempotency::{
    IdempotencyLayer,
    layer::BuildError,
    policy::{Mode, Policies, ProcedureError},
    rejection::Reason,
};
use tonic_idempotency_redis::{Durability, RedisStore};

use crate::{
    servers::{at, cluster, on, on_cluster, shared, start},
    shop::{CREATE, Shop, proceeding},
};

const SHORT: Duration = Duration::from_millis(300);

fn is_replayed<T>(response: &Response<T>) -> bool {
    response.metadata().get("idempotent-replayed").is_some()
}

/// A store on a server that is not there.
fn away() -> RedisStore {
    let free = TcpListener::bind(("127.0.0.1", 0)).expect("a port").local_addr().expect("an address");
    at(&format!("redis://{free}/")).timeout(SHORT)
}

async fn shop(store: RedisStore) -> Shop {
    Shop::with(|builder| builder.store(store)).await
}

#[tokio::test]
async fn a_call_is_made_once_and_frees_its_key_if_it_fails() {
    let (Some(store), Some(cluster)) = (shared(), cluster()) else { return };
    for store in [store, on_cluster(cluster).durability(Durability::replicas(1))] {
        let shop = shop(store).await;
        assert_eq!(shop.create("fail at first").await.expect_err("the first call fails").code(), Code::NotFound);
        let first = shop.create("fail at first").await.expect("the key is free");
        let second = shop.create("fail at first").await.expect("a replay");
        assert!(!is_replayed(&first) && is_replayed(&second));
        assert_eq!(first.into_inner(), second.into_inner());
        let other = shop.create("b").await.expect_err("another request");
        assert_eq!(Reason::of(&other), Some(Reason::KeyReused), "{other:?}");
        assert_eq!(shop.orders.started(), 2);
    }
}

#[tokio::test]
async fn a_call_is_refused_while_the_server_is_away_or_runs_unprotected_if_that_is_the_policy() {
    let Some(server) = start(&[]) else { return };
    let store = on(&server).timeout(SHORT);
    let make = |policies: Policies| {
        let store = store.clone();
        Shop::with(move |builder| builder.store(store).policies(policies))
    };
    let (cautious, proceeding) = (make(Policies::default()).await, make(proceeding()).await);
    server.kill();
    let error = cautious.create("a").await.expect_err("no store");
    assert_eq!((error.code(), Reason::of(&error)), (Code::Unavailable, Some(Reason::StoreUnavailable)), "{error:?}");
    proceeding.create("a").await.expect("an unprotected call");
    assert_eq!([cautious.orders.started(), proceeding.orders.started()], [0, 1]);
}

/// Too few replicas are no reason to run unprotected.
#[tokio::test]
async fn a_call_is_refused_without_the_replicas_whatever_the_policy() {
    let Some(store) = shared() else { return };
    let durability = Durability::replicas(1).within(Duration::from_millis(50));
    let shop = Shop::with(|builder| builder.store(store.durability(durability)).policies(proceeding())).await;
    let error = shop.create("a").await.expect_err("no replica");
    assert_eq!((error.code(), Reason::of(&error)), (Code::Unavailable, Some(Reason::Overloaded)), "{error:?}");
    assert_eq!(shop.orders.started(), 0);
}

/// No transaction spans Redis and the handler's database: a layer that would need one is not built.
#[test]
fn a_transactional_procedure_is_refused() {
    let builder = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(away());
    let error = builder.adjust_procedures(|procedure| procedure.mode(Mode::Transactional)).build();
    let error = error.expect_err("no transactions");
    let BuildError::Procedure(ProcedureError::NoTransactions { procedure }) = &error else { panic!("{error:?}") };
    assert_eq!(procedure, CREATE);
    assert!(error.to_string().contains("reserved"), "{error}");
}

/// Redis does not know the status of an order: a layer that would have to ask it is not built.
#[test]
fn a_status_that_nobody_reports_is_refused() {
    let builder = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(away());
    let error = builder.adjust_procedures(|procedure| procedure.creates("order", "order_id")).build();
    let error = error.expect_err("no status");
    assert!(matches!(error, BuildError::Procedure(ProcedureError::NoStatus { .. })), "{error:?}");
    assert!(error.to_string().contains("status_resolver"), "{error}");
}
