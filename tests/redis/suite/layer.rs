//! The layer on Redis: its calls, and the settings with which it is not built.

use std::{net::TcpListener, time::Duration};

use quickstart::FILE_DESCRIPTOR_SET;
use scratch_redis::Server;
use tonic::{Code, Response};
use tonic_idempotency::{
    IdempotencyLayer,
    layer::BuildError,
    policy::{Mode, ProcedureError},
    rejection::Reason,
};
use tonic_idempotency_redis::{Durability, RedisStore};

use crate::{
    servers::{are_missing, at, cluster, on, on_cluster, store},
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

async fn creates_once(store: RedisStore) {
    let shop = shop(store).await;
    let first = shop.create("a").await.expect("the first call");
    let second = shop.create("a").await.expect("a replay");
    assert!(!is_replayed(&first) && is_replayed(&second));
    assert_eq!(first.into_inner(), second.into_inner());
    let other = shop.create("b").await.expect_err("another request");
    assert_eq!(Reason::of(&other), Some(Reason::KeyReused), "{other:?}");
    assert_eq!(shop.orders.started(), 1);
}

#[tokio::test]
async fn a_call_is_made_once_on_a_server() {
    if !are_missing() {
        creates_once(store()).await;
    }
}

#[tokio::test]
async fn a_call_is_made_once_in_a_cluster() {
    if !are_missing() {
        creates_once(on_cluster(cluster()).durability(Durability::replicas(1))).await;
    }
}

#[tokio::test]
async fn a_call_that_failed_frees_its_key() {
    if are_missing() {
        return;
    }
    let shop = shop(store()).await;
    let error = shop.create("fail at first").await.expect_err("the first call fails");
    assert_eq!(error.code(), Code::NotFound);
    assert!(!is_replayed(&shop.create("fail at first").await.expect("the second call")));
}

#[tokio::test]
async fn a_call_is_refused_while_the_server_is_away() {
    if are_missing() {
        return;
    }
    let server = Server::start(&[]).expect("a server");
    let shop = shop(on(&server).timeout(SHORT)).await;
    server.kill();
    let error = shop.create("a").await.expect_err("no store");
    assert_eq!((error.code(), Reason::of(&error)), (Code::Unavailable, Some(Reason::StoreUnavailable)), "{error:?}");
    assert_eq!(shop.orders.started(), 0);
}

#[tokio::test]
async fn a_call_runs_unprotected_while_the_server_is_away_if_that_is_the_policy() {
    let shop = Shop::with(|builder| builder.store(away()).policies(proceeding())).await;
    shop.create("a").await.expect("an unprotected call");
    assert_eq!(shop.orders.started(), 1);
}

/// Too few replicas are no reason to run unprotected.
#[tokio::test]
async fn a_call_is_refused_without_the_replicas_whatever_the_policy() {
    if are_missing() {
        return;
    }
    let durability = Durability::replicas(1).within(Duration::from_millis(50));
    let shop = Shop::with(|builder| builder.store(store().durability(durability)).policies(proceeding())).await;
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
