//! Messages of calls to a transactional procedure without a key or without a user.

use std::sync::atomic::{AtomicUsize, Ordering};

use http::uri::PathAndQuery;
use organization::proto::{CreateProjectRequest, CreateProjectResponse};
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_stream::wrappers::ReceiverStream;
use tonic::codec::CompressionEncoding;
use tonic_idempotency::{
    layer::{CallerFromExtensions, CallerResolver as _, IdempotencyLayerBuilder},
    policy::{Limit, Limits, UserPolicy},
};
use tonic_idempotency_tests::shop;

use crate::harness::open_transactions;
use crate::prelude::*;

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
    (
        Service::built(database, patient::<PostgresStack>(database.pool(connections)), without_user, build, insert)
            .await,
        arrived,
    )
}

/// Sends the head of a call. Its message follows when the test puts it into the channel.
fn spawn_head(
    service: &Service,
) -> (mpsc::Sender<CreateProjectRequest>, JoinHandle<Result<CreateProjectResponse, Status>>) {
    let (sender, receiver) = mpsc::channel(1);
    let request = shop::with(ReceiverStream::new(receiver), service.user, service.key);
    let mut client = tonic::client::Grpc::new(service.channel.clone());
    let call = tokio::spawn(async move {
        client.ready().await.expect("the server listens");
        let path = PathAndQuery::from_static(CREATE_PROJECT);
        let codec = tonic_prost::ProstCodec::<CreateProjectRequest, CreateProjectResponse>::default();
        client.client_streaming(request, path, codec).await.map(tonic::Response::into_inner)
    });
    (sender, call)
}

/// As many heads as there are connections, of calls without a key and of calls without a user.
#[tokio::test]
async fn a_call_whose_message_has_not_arrived_holds_no_connection() {
    let database = Database::new().await;
    let (service, arrived) = counted(&database, 2, |builder| builder).await;
    let slow = [service.with_key(None), service.with_user(None)];
    let heads: Vec<_> = slow.iter().map(spawn_head).collect();
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
    let (_never_sent, call) = spawn_head(&service.with_key(None));
    let status = call.await.expect("no panic").expect_err("it is refused");
    assert_eq!((status.code(), Reason::of(&status)), (Code::DeadlineExceeded, Some(Reason::RequestTimeout)));
    assert_eq!(service.runs(), 0);
}

#[tokio::test]
async fn messages_that_are_too_large_several_or_none_are_refused_before_a_transaction() {
    let database = Database::new().await;
    let (proxy, pool) = database.pool_through_proxy(1).await;
    let build = |builder: IdempotencyLayerBuilder| builder.max_request_bytes(100);
    let service =
        Service::built(&database, patient::<PostgresStack>(pool), without_user, build, insert).await.with_key(None);
    let large = String::leak("a".repeat(100));
    assert_eq!(reason(service.create(large).await), Reason::RequestTooLarge);
    for messages in [0, 2] {
        let (sender, call) = spawn_head(&service);
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
    let (service, _) =
        counted(&database, 4, |builder| builder.limits(Limits { in_flight: Limit::new(1024, 1), ..Limits::default() }))
            .await;
    let anonymous = service.with_user(None).with_key(None);
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
