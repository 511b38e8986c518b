//! A rolling deploy: two servers with two versions of one schema on one database. A client's retry goes to either.

use std::{
    pin::Pin,
    sync::atomic::{AtomicUsize, Ordering},
    task::{Context, Poll},
};

use deadpool_postgres::Pool;
use tokio::sync::Semaphore;
use tokio_postgres::types::Type;
use tonic::Status;
use tonic_idempotency::Transaction;

use crate::prelude::*;
use crate::server::authenticate;

const VERSIONS: [&[u8]; 2] = [
    include_bytes!(concat!(env!("OUT_DIR"), "/deploy-before.fds")),
    include_bytes!(concat!(env!("OUT_DIR"), "/deploy-after.fds")),
];

const INSERT: &str = "INSERT INTO tenant.projects (cluster_id, organization_id, name)
                      SELECT id, organization_id, 'order' FROM tenant.clusters RETURNING id";

/// The handler of both procedures: it writes a row. If the message contains `hold`, it waits for a permit first.
#[derive(Clone)]
struct Orders {
    pool: Pool,
    started: Arc<AtomicUsize>,
    gate: Arc<Semaphore>,
}

impl Service<http::Request<Body>> for Orders {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let orders = self.clone();
        Box::pin(async move { Ok(orders.place(request).await.unwrap_or_else(Status::into_http)) })
    }
}

impl Orders {
    async fn place(self, request: http::Request<Body>) -> Result<http::Response<Body>, Status> {
        self.started.fetch_add(1, Ordering::SeqCst);
        let (parts, body) = request.into_parts();
        let message = body.collect().await?.to_bytes();
        if message.windows(4).any(|part| part == b"hold") {
            self.gate.acquire().await.expect("it is not closed").forget();
        }
        match Transaction::from_extensions(&parts.extensions) {
            Ok(transaction) => drop(transaction.query_typed_one(INSERT, &[]).await?),
            Err(_) => {
                let client = self.pool.get().await.expect("a connection");
                client.query_typed(INSERT, &[]).await.expect("the order is written");
            }
        }
        let mut trailers = http::HeaderMap::new();
        trailers.insert("grpc-status", http::HeaderValue::from_static("0"));
        let body = http_body_util::Full::new(framed(b"")).with_trailers(std::future::ready(Some(Ok(trailers))));
        let response = http::Response::builder().header("content-type", "application/grpc").body(Body::new(body));
        response.map_err(|error| Status::internal(error.to_string()))
    }
}

/// Two servers with two versions of the schema, and their database.
struct Fleet {
    database: Database,
    servers: [SocketAddr; 2],
    orders: Orders,
    user: Uuid,
}

/// A call that a client sends, and sends again.
#[derive(Clone, Copy, Debug)]
struct Order<'a> {
    procedure: &'static str,
    protocol: Protocol,
    message: &'a [u8],
}

impl Fleet {
    /// With `translated`, [`ConnectLayer`] is in front of the layer; otherwise, the layer itself translates.
    async fn new(translated: bool) -> Self {
        let database = Database::new().await;
        let user = database.user().await.id;
        let (started, gate) = (Arc::default(), Arc::new(Semaphore::new(0)));
        let owner: tokio_postgres::Config = database.url().parse().expect("an address");
        let pool = Pool::builder(deadpool_postgres::Manager::new(owner, tokio_postgres::NoTls)).max_size(4).build();
        let orders = Orders { pool: pool.expect("a pool"), started, gate };
        let mut servers = Vec::new();
        for version in VERSIONS {
            let layer = IdempotencyLayer::builder(version).store(database.store()).ignore_unknown_fields(true);
            let layer = layer.build().expect("a layer");
            let connect = ConnectLayer::new(version).expect("descriptors").ignore_unknown_fields(true);
            let builder = ServiceBuilder::new().map_request(authenticate);
            servers.push(match translated {
                true => serve(builder.layer(connect).layer(layer).service(orders.clone())).await,
                false => serve(builder.layer(layer).service(orders.clone())).await,
            });
        }
        Self { database, servers: servers.try_into().expect("two servers"), orders, user }
    }

    async fn send(&self, server: usize, key: Uuid, order: Order<'_>) -> Outcome {
        let mut call = order.protocol.call("", order.message).header("user", self.user).header("idempotency-key", key);
        call.path = format!("/deploy.v1.Orders/{}", order.procedure);
        order.protocol.read(call.send(self.servers[server]).await)
    }

    fn started(&self) -> usize {
        self.orders.started.load(Ordering::SeqCst)
    }

    /// The number of orders in the database.
    async fn placed(&self) -> i64 {
        let count = "SELECT count(*) FROM tenant.projects";
        self.database.owner().await.query_typed_one(count, &[]).await.expect("the count").get(0)
    }
}

/// Orders with this name, in the encodings of several clients. The two versions of the schema rewrite each in different
/// ways.
fn orders(name: &str) -> Vec<(Protocol, Vec<u8>)> {
    let (name, card) = (text(1, name), text(3, "card"));
    let (note, amount) = (text(2, "note"), [0x28, 0x05]);
    let label = |key: &str| text(6, std::str::from_utf8(&[text(1, key), text(2, "1")].concat()).expect("text"));
    let (labels, voucher) = ([label("b"), label("a")].concat(), text(7, "voucher"));
    vec![
        (Protocol::Grpc, [&*name, &note, &card, &amount].concat()),
        (Protocol::Grpc, [&*name, &note, &amount, &card].concat()),
        (Protocol::GrpcWeb, [&*name, &amount, &labels].concat()),
        (Protocol::Connect, [&*name, &voucher, &[0x28, 0]].concat()),
    ]
}

/// The same orders in JSON. Servers ignore fields that they do not know.
fn orders_in_json(name: &str) -> Vec<(Protocol, Vec<u8>)> {
    let note = format!(r#"{{ "name":"{name}", "note": "a", "card": "1" }}"#);
    let zero = format!(r#"{{"amount": "0", "name": "{name}"}}"#);
    [Protocol::ConnectJson, Protocol::GrpcJson]
        .into_iter()
        .flat_map(|protocol| [&note, &zero].map(|json| (protocol, json.clone().into_bytes())))
        .collect()
}

const PROCEDURES: [&str; 2] = ["Place", "PlaceInTransaction"];
const DIRECTIONS: [[usize; 2]; 2] = [[0, 1], [1, 0]];

fn all(name: &str, translated: bool) -> Vec<(Protocol, Vec<u8>)> {
    let can_be_translated =
        |protocol| !translated || matches!(protocol, Protocol::Grpc | Protocol::Connect | Protocol::ConnectJson);
    orders(name).into_iter().chain(orders_in_json(name)).filter(|(protocol, _)| can_be_translated(*protocol)).collect()
}

/// All combinations of a procedure, a direction from one server to the other, and one of these messages.
fn each(messages: &[(Protocol, Vec<u8>)]) -> Vec<([usize; 2], Order<'_>)> {
    let mut each = Vec::new();
    for procedure in PROCEDURES {
        for direction in DIRECTIONS {
            each.extend(
                messages
                    .iter()
                    .map(|(protocol, message)| (direction, Order { procedure, protocol: *protocol, message })),
            );
        }
    }
    each
}

#[tokio::test]
async fn a_retry_to_a_server_with_another_version_is_replayed() {
    for translated in [true, false] {
        let fleet = Fleet::new(translated).await;
        let mut placed = 0;
        for ([first, second], order) in each(&all("shop", translated)) {
            let key = Uuid::new_v4();
            let answer = fleet.send(first, key, order).await;
            assert!(!answer.is_replay(), "{order:?} {answer:?}");
            answer.message();
            placed += 1;
            for server in [second, first, second] {
                let answer = fleet.send(server, key, order).await;
                assert!(answer.is_replay(), "{first} then {server}: {order:?} {answer:?}");
                answer.message();
            }
            assert_eq!(fleet.placed().await, placed, "{order:?}");
        }
    }
}

#[tokio::test]
async fn another_request_to_a_server_with_another_version_is_refused() {
    let fleet = Fleet::new(false).await;
    let (messages, others) = (all("shop", false), all("stop", false));
    for (([first, second], order), (_, other)) in each(&messages).into_iter().zip(others.iter().cycle()) {
        let key = Uuid::new_v4();
        fleet.send(first, key, order).await.message();
        let started = fleet.started();
        for server in [second, first] {
            let answer = fleet.send(server, key, Order { message: other, ..order }).await;
            assert_eq!(Reason::of(answer.error()), Some(Reason::KeyReused), "{first} then {server}: {order:?}");
        }
        assert_eq!(fleet.started(), started, "{order:?}");
    }
}

#[tokio::test]
async fn a_retry_to_a_server_with_another_version_is_in_progress_while_the_first_call_runs() {
    for translated in [true, false] {
        let fleet = Fleet::new(translated).await;
        let (messages, others) = (all("hold", translated), all("told", translated));
        for (([first, second], order), (_, other)) in each(&messages).into_iter().zip(others.iter().cycle()) {
            let (key, before) = (Uuid::new_v4(), fleet.started());
            let refused = async {
                until("the handler has started", async || fleet.started() == before + 1).await;
                for server in [second, first] {
                    let answer = fleet.send(server, key, order).await;
                    assert_eq!(answer.error().code(), Code::Aborted, "{first} then {server}: {order:?} {answer:?}");
                    assert_eq!(Reason::of(answer.error()), Some(Reason::InProgress), "{order:?}");
                    let answer = fleet.send(server, key, Order { message: other, ..order }).await;
                    // The request of an open transaction is not known.
                    let is_transactional = order.procedure == "PlaceInTransaction";
                    let expected = if is_transactional { Reason::InProgress } else { Reason::KeyReused };
                    let reason = Reason::of(answer.error());
                    assert_eq!(reason, Some(expected), "{first} then {server}: {order:?}");
                }
                fleet.orders.gate.add_permits(1);
            };
            let (running, ()) = tokio::join!(fleet.send(first, key, order), refused);
            assert!(!running.is_replay());
            let answer = fleet.send(second, key, order).await;
            assert!(answer.is_replay(), "{order:?} {answer:?}");
        }
    }
}

/// Both versions ignore the time of sending.
#[tokio::test]
async fn a_retry_with_other_ignored_fields_is_replayed_by_a_server_with_another_version() {
    let fleet = Fleet::new(false).await;
    let sent_at = |message: &[u8], protocol: Protocol, time: u8| match protocol.is_json() {
        true => {
            let message = String::from_utf8_lossy(message);
            format!(r#"{{"client": {{ "sentAt": {time}, "name": "a"}},{}"#, message.trim_start_matches('{'))
                .into_bytes()
        }
        false => [message, &bytes(15, &[&*text(1, "a"), &[0x10, time]].concat())].concat(),
    };
    for ([first, second], order) in each(&all("shop", false)) {
        let attempts = [1, 2, 3].map(|time| sent_at(order.message, order.protocol, time));
        let key = Uuid::new_v4();
        fleet.send(first, key, Order { message: &attempts[0], ..order }).await.message();
        for (server, message) in [(second, &attempts[1]), (first, &attempts[2])] {
            let answer = fleet.send(server, key, Order { message, ..order }).await;
            assert!(answer.is_replay(), "{first} then {server}: {order:?} {answer:?}");
        }
    }
}

/// A server of an earlier version of this crate, or with the Go interceptor, keeps only the canonical hash.
#[tokio::test]
async fn a_record_without_the_hash_of_the_bytes_is_known_by_its_canonical_one() {
    let fleet = Fleet::new(false).await;
    let forget = "UPDATE tenant.idempotency_keys SET arrival_hash = NULL WHERE arrival_hash IS NOT NULL";
    for (protocol, message) in all("shop", false) {
        let (key, order) = (Uuid::new_v4(), Order { procedure: "Place", protocol, message: &message });
        fleet.send(0, key, order).await.message();
        fleet.database.owner().await.query_typed(forget, &[] as &[(_, Type)]).await.expect("it is forgotten");
        let answer = fleet.send(0, key, order).await;
        assert!(answer.is_replay(), "{order:?} {answer:?}");
    }
}
