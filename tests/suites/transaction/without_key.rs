//! Calls to a transactional procedure without a key or without a user: the layer only provides the transaction that the
//! handler needs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use organization::proto::CreateProjectRequest;
use tokio::sync::Semaphore;
use tonic::{Code, Status, codec::CompressionEncoding};
use tonic_idempotency::{
    layer::{CallerFromExtensions, CallerResolver as _, IdempotencyLayerBuilder},
    policy::{KeyFormat, ProcedureBuilder, UserPolicy},
    rejection::Reason,
};
use tonic_idempotency_tests::{Database, shop, until};
use uuid::Uuid;

use crate::harness::{Call, Service, all_have_ended, open_transactions, reason, rows};

/// Inserts if it is told to, and otherwise writes nothing, as a call without a user has to.
async fn insert(call: Call) -> Result<Uuid, Status> {
    match call.name.as_str() {
        "nothing" => Ok(Uuid::nil()),
        "wait" => std::future::pending().await,
        _ => call.insert().await,
    }
}

/// Lets calls run without a user.
fn without_user(procedure: ProcedureBuilder) -> ProcedureBuilder {
    procedure.on_no_user(UserPolicy::PassThrough)
}

/// A service on a pool of this size, and a counter of the calls that have arrived at its layer.
async fn counted(
    database: &Database,
    connections: usize,
    build: impl FnOnce(IdempotencyLayerBuilder) -> IdempotencyLayerBuilder,
) -> (Service, Arc<AtomicUsize>) {
    let arrived = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&arrived);
    let caller = move |headers: &http::HeaderMap, extensions: &http::Extensions| {
        counter.fetch_add(1, Ordering::SeqCst);
        CallerFromExtensions.caller(headers, extensions)
    };
    let build = |builder| build(IdempotencyLayerBuilder::caller_resolver(builder, caller));
    (Service::built(database, database.pool(connections), without_user, build, insert).await, arrived)
}

#[tokio::test]
async fn a_call_that_succeeds_is_committed_and_not_recorded() {
    let database = Database::new().await;
    let service = Service::new(&database, database.pool(2), |call: Call| async move { call.insert().await }).await;
    let without_key = service.with_key(None);
    for calls in 1..=2 {
        let seen = without_key.create("shop").await.expect("a call");
        assert_eq!((seen.status, seen.replayed), (None, false));
        assert_eq!(rows(&database.owner().await).await, [calls, calls, 0]);
    }
}

/// The name stands for a key: the service's message has no field that is one.
#[tokio::test]
async fn a_call_whose_key_field_is_empty_is_committed_and_not_recorded() {
    let database = Database::new().await;
    let procedure = |procedure: ProcedureBuilder| procedure.key_field("name").key_format(KeyFormat::Any);
    let service = Service::built(&database, database.pool(2), procedure, |builder| builder, insert).await;
    let without_key = service.with_key(None);
    for calls in 1..=2 {
        let seen = without_key.create("").await.expect("a call");
        assert_eq!((seen.status, seen.replayed), (None, false));
        assert_eq!(rows(&database.owner().await).await, [calls, calls, 0]);
    }
    for replayed in [false, true] {
        assert_eq!(without_key.create("order-17").await.expect("a call").replayed, replayed);
        assert_eq!(rows(&database.owner().await).await, [3, 3, 1]);
    }
}

#[tokio::test]
async fn a_call_that_fails_leaves_nothing() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let service = Service::new(&database, database.pool(2), |call: Call| async move {
        call.insert().await?;
        Err(Status::not_found("not now"))
    })
    .await;
    assert_eq!(service.with_key(None).create("shop").await.expect_err("it fails").code(), Code::NotFound);
    all_have_ended(&owner).await;
    assert_eq!(rows(&owner).await, [0, 0, 0]);
}

/// PostgreSQL answers COMMIT with success after a failed statement, but rolls back.
#[tokio::test]
async fn a_handler_that_ignores_a_failed_statement_does_not_succeed() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let service = Service::new(&database, database.pool(2), |call: Call| async move {
        let project = call.insert().await?;
        call.transaction().execute("SELECT 1 / 0", &[]).await.expect_err("a division by zero");
        Ok(project)
    })
    .await;
    assert_eq!(reason(service.with_key(None).create("shop").await), Reason::NotCommitted);
    all_have_ended(&owner).await;
    assert_eq!(rows(&owner).await, [0, 0, 0]);
}

#[tokio::test]
async fn a_client_that_disconnects_cancels_its_call() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let gate = Arc::new(Semaphore::new(0));
    let waits = Arc::clone(&gate);
    let service = Service::new(&database, database.pool(1), move |call: Call| {
        let gate = Arc::clone(&waits);
        async move {
            let project = call.insert().await?;
            gate.acquire().await.expect("it is not closed").forget();
            Ok(project)
        }
    })
    .await;
    let call = service.with_key(None).spawn("shop");
    until("the handler runs", async || service.runs() == 1 && open_transactions(&owner).await == 1).await;
    call.abort();
    until("it is rolled back", async || open_transactions(&owner).await == 0).await;
    assert_eq!(rows(&owner).await, [0, 0, 0]);
    // The pool's only connection is free.
    gate.add_permits(1);
    service.create("shop").await.expect("a call");
    assert_eq!(rows(&owner).await, [1, 1, 1]);
}

#[tokio::test]
async fn a_call_without_a_user_has_a_transaction_without_one() {
    let database = Database::new().await;
    for policy in [UserPolicy::PassThrough, UserPolicy::Reject] {
        let describe = |procedure: ProcedureBuilder| procedure.on_no_user(policy);
        let service = Service::with(&database, database.pool(2), describe, |call: Call| async move {
            let row = call.transaction().query_one("SELECT authn.current_user_id()", &[]).await?;
            assert_eq!(row.get::<_, Option<Uuid>>(0), None);
            Ok(Uuid::nil())
        })
        .await;
        let without_user = |key| Service { user: None, ..service.with_key(key) };
        without_user(None).create("shop").await.expect("a call without a key");
        let with_key = without_user(service.key).create("shop").await;
        match policy {
            UserPolicy::PassThrough => assert!(with_key.is_ok(), "{with_key:?}"),
            _ => assert_eq!(reason(with_key), Reason::NoUser),
        }
        let runs = 1 + usize::from(policy == UserPolicy::PassThrough);
        assert_eq!((service.runs(), rows(&database.owner().await).await), (runs, [0, 0, 0]));
    }
}

/// As many heads as there are connections, of calls without a key and of calls without a user.
#[tokio::test]
async fn a_call_whose_message_has_not_arrived_holds_no_connection() {
    let database = Database::new().await;
    let (service, arrived) = counted(&database, 2, |builder| builder).await;
    let slow = [service.with_key(None), Service { user: None, ..service.with_key(service.key) }];
    let heads: Vec<_> = slow.iter().map(Service::spawn_head).collect();
    until("the heads have arrived", async || arrived.load(Ordering::SeqCst) == 2).await;
    // Both connections are free.
    assert_eq!(open_transactions(&database.owner().await).await, 0);
    service.create("shop").await.expect("a call with a key");
    service.with_key(None).create("shop").await.expect("a call without a key");
    assert_eq!(rows(&database.owner().await).await, [2, 2, 1]);

    // When their messages arrive, they run as ever.
    for (sender, call) in heads {
        sender.send(message("nothing")).await.expect("the call reads it");
        drop(sender);
        call.await.expect("no panic").expect("a response");
    }
    assert_eq!((service.runs(), rows(&database.owner().await).await), (4, [2, 2, 1]));
}

fn message(name: &str) -> CreateProjectRequest {
    CreateProjectRequest { name: name.to_owned(), ..CreateProjectRequest::default() }
}

#[tokio::test]
async fn a_message_that_does_not_arrive_in_time_is_refused() {
    let database = Database::new().await;
    let (service, _) = counted(&database, 1, |builder| builder.request_body_timeout(Duration::from_millis(50))).await;
    let (_never_sent, call) = service.with_key(None).spawn_head();
    let status = call.await.expect("no panic").expect_err("it is refused");
    assert_eq!((status.code(), Reason::of(&status)), (Code::DeadlineExceeded, Some(Reason::RequestTimeout)));
    assert_eq!(service.runs(), 0);
}

#[tokio::test]
async fn messages_that_are_too_large_several_or_none_are_refused_before_a_transaction() {
    let database = Database::new().await;
    let (proxy, pool) = database.pool_through_proxy(1).await;
    let build = |builder: IdempotencyLayerBuilder| builder.max_request_bytes(100);
    let service = Service::built(&database, pool, without_user, build, insert).await.with_key(None);
    let large = String::leak("a".repeat(100));
    assert_eq!(reason(service.create(large).await), Reason::RequestTooLarge);
    for messages in [0, 2] {
        let (sender, call) = service.spawn_head();
        for _ in 0..messages {
            // It may stop reading.
            let _ = sender.send(message("shop")).await;
        }
        drop(sender);
        let status = call.await.expect("no panic").expect_err("it is refused");
        assert_eq!((status.code(), Reason::of(&status)), (Code::Unimplemented, Some(Reason::RequestMalformed)));
    }
    assert_eq!((service.runs(), proxy.round_trips()), (0, 0));
    service.create("shop").await.expect("a call");
}

/// They hold connections, though they end with their streams.
#[tokio::test]
async fn running_calls_count_as_in_flight_and_leave_room_when_their_clients_disconnect() {
    let database = Database::new().await;
    let (service, _) = counted(&database, 4, |builder| builder.max_in_flight_per_user(1)).await;
    let anonymous = Service { user: None, ..service.with_key(None) };
    for (before, service) in [service.with_key(None), anonymous].iter().enumerate() {
        let call = service.spawn("wait");
        until("it runs", async || service.runs() == 2 * before + 1).await;
        for key in [None, Some(Uuid::new_v4())] {
            let status = service.with_key(key).create("nothing").await.expect_err("one is in flight");
            assert_eq!((status.code(), Reason::of(&status)), (Code::ResourceExhausted, Some(Reason::Overloaded)));
        }
        call.abort();
        until("there is room again", async || service.create("nothing").await.is_ok()).await;
    }
}

/// A request that is compressed reaches the handler as it was sent.
#[tokio::test]
async fn a_compressed_message_is_handled_as_without_the_layer() {
    let database = Database::new().await;
    let (service, _) = counted(&database, 1, |builder| builder).await;
    let client = service.client.clone().send_compressed(CompressionEncoding::Gzip);
    let status = client.clone().create_project(shop::with(message("shop"), service.user, None)).await;
    let status = status.expect_err("the server accepts no compression");
    assert_eq!((status.code(), Reason::of(&status)), (Code::Unimplemented, None));
    assert_eq!(service.runs(), 0);
}
