//! Connections that are cut or fall silent at any moment of a call.

use std::{sync::Arc, time::Duration};

use tcp_proxy::{Cut, Direction, Moment};
use tonic_idempotency::{policy::ProcedureBuilder, rejection::Reason};
use tonic_idempotency_tests::{Database, until};

use crate::{Call, Service, Stack, all_have_ended, pool_through_proxy, reason, rows, store};

/// Up to where a call may be cut, in bytes.
const CALL: usize = 4_000;

/// Before the claim and after it, in the handler's statements, in the record, in the COMMIT.
pub async fn that_are_cut_anywhere_leave_an_effect_with_its_record_or_neither<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let (proxy, pool) = pool_through_proxy::<S>(&database, 4).await;
    let service = Service::inserting::<S>(&database, pool).await;
    let mut calls = 0;
    for direction in [Direction::Requests, Direction::Answers] {
        for left in (0..CALL).step_by(250) {
            let service = service.with_new_key();
            proxy.cut_later(Cut { all: false, moment: Moment::Bytes { direction, left } }, || ());
            let first = service.create("shop").await;
            proxy.forget_cuts();
            all_have_ended(&owner).await;
            let again = service.create("shop").await.expect("the key is free, or it is a replay");
            calls += 1;
            assert_eq!(rows(&owner).await, [calls, calls, calls], "{direction:?} {left}");
            if let Ok(first) = first {
                assert_eq!((again.project, again.replayed), (first.project, true), "{direction:?} {left}");
            }
        }
    }
}

/// Without a key there is nothing to look up: the client learns that the outcome is not known.
pub async fn that_are_cut_at_the_commit_are_looked_up<S: Stack>() {
    for (has_key, moment, left) in [
        (true, Moment::AfterCommit, [1, 1, 1]),
        (true, Moment::BeforeCommit, [0, 0, 0]),
        (false, Moment::AfterCommit, [1, 1, 0]),
        (false, Moment::BeforeCommit, [0, 0, 0]),
    ] {
        let database = Database::new().await;
        let owner = database.owner().await;
        let (proxy, pool) = pool_through_proxy::<S>(&database, 4).await;
        let service = Service::inserting::<S>(&database, pool).await;
        let service = if has_key { service } else { service.with_key(None) };
        proxy.cut_later(Cut { all: false, moment }, || ());
        let first = service.create("shop").await;
        all_have_ended(&owner).await;
        assert_eq!(rows(&owner).await, left, "{moment:?}, with a key: {has_key}");
        let is_recorded = left[2] == 1;
        match first {
            Ok(first) => assert!(is_recorded && !first.replayed),
            refused => assert_eq!((reason(refused), is_recorded), (Reason::StoreUnavailable, false)),
        }
        if has_key {
            assert_eq!(service.create("shop").await.expect("a response").replayed, is_recorded);
            assert_eq!((rows(&owner).await, service.runs()), ([1, 1, 1], if is_recorded { 1 } else { 2 }));
        }
    }
}

/// The answer to the claim, or to BEGIN, never comes, and another connection is asked.
pub async fn that_are_silent_before_a_call_are_replaced<S: Stack>() {
    let database = Database::new().await;
    let (proxy, pool) = pool_through_proxy::<S>(&database, 4).await;
    let store = store::<S>(pool).timeout(Duration::from_secs(8));
    let script = |call: Call<S>| async move { call.insert().await };
    let service = Service::built(&database, store, |procedure| procedure, |builder| builder, script).await;
    for key in [service.key, None] {
        service.with_new_key().create("shop").await.expect("a call");
        proxy.silence_connections();
        service.with_key(key).create("shop").await.expect("a call");
    }
    assert_eq!(rows(&database.owner().await).await, [4, 4, 3]);
    proxy.cut_silent_connections();
}

/// The transaction is open on the server until that ends it; then the key is free.
pub async fn that_fall_silent_in_a_call_hold_its_key_no_longer_than_the_server_waits<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let (proxy, pool) = pool_through_proxy::<S>(&database, 4).await;
    let (proxy, store) = (Arc::new(proxy), store::<S>(pool).timeout(Duration::from_secs(3)));
    let silencer = Arc::clone(&proxy);
    let describe = |procedure: ProcedureBuilder| procedure.transaction_idle(Duration::from_secs(2));
    let script = move |call: Call<S>| {
        let proxy = Arc::clone(&silencer);
        async move {
            let project = call.insert().await?;
            if call.name == "silent" {
                proxy.silence_connections();
            }
            Ok(project)
        }
    };
    let service = Service::built(&database, store, describe, |builder| builder, script).await;
    for service in [service.clone(), service.with_key(None)] {
        assert_eq!(reason(service.create("silent").await), Reason::StoreUnavailable);
        all_have_ended(&owner).await;
        assert_eq!(rows(&owner).await, [0, 0, 0]);
        proxy.cut_silent_connections();
    }
    until("the key is free", async || service.create("shop").await.is_ok()).await;
    assert_eq!(rows(&owner).await, [1, 1, 1]);
}
