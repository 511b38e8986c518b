//! `check` of a tonic server with the layer and its records on Redis.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    path::PathBuf,
    process::Output,
    time::Duration,
};

use quickstart::{
    FILE_DESCRIPTOR_SET,
    proto::{
        CreateOrderRequest, CreateOrderResponse,
        order_service_server::{OrderService, OrderServiceServer},
    },
};
use scratch_postgres::skip;
use tokio::{net::TcpListener, process::Command, time::sleep};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, service::InterceptorLayer, transport::Server};
use tonic_idempotency::{IdempotencyLayer, UserId};
use tonic_idempotency_redis::{RedisStore, redis::Client};
use uuid::Uuid;

/// Not checked: the service has nothing for it, or the test cannot do it, such as a process of its own to kill, a second method, several fields, and the like.
const UNCHECKED: [&str; 15] =
    ["F11", "F8", "H1", "H2", "H3", "H5", "H6", "H7", "H8", "H9", "I3", "R2", "R3", "R8", "T2"];

/// Each order is a line in the file with its item's name.
struct Orders(PathBuf);

#[tonic::async_trait]
impl OrderService for Orders {
    async fn create_order(
        &self,
        request: Request<CreateOrderRequest>,
    ) -> Result<Response<CreateOrderResponse>, Status> {
        let slow = request.metadata().get("x-slow").and_then(|time| time.to_str().ok()?.parse().ok());
        sleep(Duration::from_millis(slow.unwrap_or_default())).await;
        let item = request.into_inner().item;
        if item.is_empty() {
            return Err(Status::invalid_argument("an item is missing"));
        }
        let mut file = OpenOptions::new().create(true).append(true).open(self.0.join(item))?;
        file.write_all(b"an order\n")?;
        Ok(Response::new(CreateOrderResponse { order_id: Uuid::new_v4().to_string() }))
    }
}

/// Starts a server of the service, and returns its address.
async fn serve(store: RedisStore, orders: Orders) -> String {
    let idempotency = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(store).build().expect("a layer");
    let authenticate = InterceptorLayer::new(|mut request: Request<()>| {
        let name = request.metadata().get("x-user").and_then(|name| name.to_str().ok()).unwrap_or_default().to_owned();
        let user = UserId::from_text(&name).map_err(|error| Status::unauthenticated(error.to_string()))?;
        request.extensions_mut().insert(user);
        Ok(request)
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = Server::builder().layer(authenticate).layer(idempotency).add_service(OrderServiceServer::new(orders));
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    format!("http://{address}")
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_its_promises() {
    if let Some(why) = scratch_redis::missing() {
        return skip("redis", why);
    }
    let redis = scratch_redis::Server::start(&[]).expect("a server");
    let store = RedisStore::single(Client::open(redis.url()).expect("an address"));
    let folder = tempfile::tempdir().expect("a folder");
    let orders = || Orders(folder.path().to_owned());
    let (url, also) = (serve(store.clone(), orders()).await, serve(store, orders()).await);
    let descriptors = folder.path().join("orders.bin");
    fs::write(&descriptors, FILE_DESCRIPTOR_SET).expect("a file");
    let count =
        format!("cd '{}' && if [ -e $CHECK_UUID ]; then wc -l < $CHECK_UUID; else echo 0; fi", folder.path().display());

    let mut command = Command::new(env!("CARGO_BIN_EXE_tonic-idempotency"));
    command.args(["check", &url, "orders.v1.OrderService/CreateOrder", "--request", r#"{"item": "{{uuid}}"}"#]);
    command.args(["--header", "x-user: alice", "--second-header", "x-user: bobby", "--slow", "x-slow: 1000"]);
    command.args(["--also", &also, "--count", &count, "--level", "tonic-idempotency", "--yes", "--json"]);
    let Output { status, stdout, stderr } =
        command.arg("--descriptor-set").arg(&descriptors).output().await.expect("it runs");
    let [stdout, stderr] = [stdout, stderr].map(|text| String::from_utf8(text).expect("text"));
    assert!(status.success(), "{stdout}{stderr}");
    let lines = stdout.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let unchecked =
        lines.filter(|line| line["verdict"] == "not_checked").map(|line| line["code"].as_str().map(str::to_owned));
    let mut unchecked: Vec<_> = unchecked.flatten().collect();
    unchecked.sort();
    assert_eq!(unchecked, UNCHECKED, "{stdout}");
}
