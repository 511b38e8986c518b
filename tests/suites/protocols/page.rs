//! The service of `docs/connect.md`: the page shows the files of `examples/connect`, and the program replays a call.

use std::{fs, path::Path, process::Stdio};

use quickstart::proto::{CreateOrderRequest, order_service_client::OrderServiceClient};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};
use tonic_idempotency::{migrations, store::Schema};
use tonic_idempotency_tests::binary;

use crate::http::{Answer, Call, Version};
use crate::prelude::*;

/// The role that the service logs in as.
const ROLE: &str = "idempotency_tests_orders";

#[test]
fn shows_the_files_of_the_service() {
    let page = page();
    let files = [("Cargo.toml", "toml"), ("proto/orders.proto", "proto"), ("build.rs", "rs"), ("src/main.rs", "rs")];
    for (file, language) in files {
        let code = shown(&fs::read_to_string(root().join("examples/connect").join(file)).expect("a file"));
        assert!(page.contains(&format!("```{language}\n{code}\n```\n")), "the page has to show {file}:\n\n{code}\n");
    }
}

#[tokio::test]
async fn shows_a_service_that_replays_its_retry() {
    let database = Database::empty().await;
    let mut owner = database.owner().await;
    migrations::run(&mut owner, &Schema::default()).await.expect("the migrations run");
    database.login(ROLE).await;
    migrations::grant(&owner, &Schema::default(), ROLE).await.expect("the grant");
    let page = page();
    let (_, rest) = page.split_once("```sql\n").expect("the table of orders");
    let (table, _) = rest.split_once("```").expect("its end");
    owner.batch_execute(&table.replace("my_api", ROLE)).await.expect("the table of orders");
    let (scheme, rest) = database.url().split_once("://").expect("a URL");
    let (_, rest) = rest.split_at(rest.find([':', '@']).expect("a user"));
    let (mut service, address) = start(&format!("{scheme}://{ROLE}{rest}")).await;

    let key = Uuid::new_v4();
    let first = create(key, "a lamp").send(address).await;
    assert_eq!((first.status, first.headers.get("idempotent-replayed")), (200, None), "{first:?}");
    let retry = create(key, "a lamp").send(address).await;
    assert!(retry.status == 200 && retry.headers["idempotent-replayed"] == "true", "{retry:?}");
    let order_id = json(&first)["orderId"].take();
    assert_eq!(json(&retry)["orderId"], order_id);
    assert_eq!(over_grpc(address, key, "a lamp").await, order_id);
    let created = owner.query_one("SELECT id::text FROM orders", &[]).await.expect("one order");
    assert_eq!(created.get::<_, &str>(0), order_id);

    let changed = create(key, "a chair").send(address).await;
    assert_eq!((changed.status, json(&changed)["code"].as_str()), (400, Some("invalid_argument")));
    let unknown = create(key, "a lamp").replace("authorization", "Bearer another").send(address).await;
    assert_eq!(unknown.status, 401);

    let service_id = service.id().expect("it runs").to_string();
    let interrupted = Command::new("kill").args(["-s", "INT", &service_id]).status().await;
    assert!(interrupted.expect("there is kill").success());
    assert!(service.wait().await.expect("it ends").success());
}

fn page() -> String {
    fs::read_to_string(root().join("docs/connect.md")).expect("the page")
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository")
}

/// Returns the code as a reader sees it: without what concerns only this repository.
fn shown(code: &str) -> String {
    let code = code.split_once("\n[dependencies]").map_or(code.to_owned(), |(_, code)| format!("[dependencies]{code}"));
    let code = code.replace("path = \"../..", "path = \"../tonic-idempotency");
    let code = code.replace("[lints]\nworkspace = true\n", "");
    let lines = code.lines().filter(|line| !line.starts_with("//!") && !line.starts_with("#!["));
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// Starts the program on a database.
async fn start(url: &str) -> (Child, SocketAddr) {
    let mut service = Command::new(binary("connect-example", ""))
        .env("ADDRESS", "127.0.0.1:0")
        .env("DATABASE_URL", url)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("the service starts");
    let mut lines = BufReader::new(service.stdout.take().expect("its output")).lines();
    let line = lines.next_line().await.expect("its output").expect("a line");
    let address = line.strip_prefix("http://").and_then(|address| address.parse().ok());
    (service, address.expect("an address"))
}

/// A call over Connect, as curl sends it.
fn create(key: Uuid, item: &str) -> Call {
    let path = "/orders.v1.OrderService/CreateOrder".to_owned();
    let call =
        Call { version: Version::One, method: Method::POST, path, headers: Vec::new(), body: Default::default() };
    call.header("authorization", "Bearer alice-at-acme")
        .header("content-type", "application/json")
        .header("idempotency-key", key)
        .body(format!(r#"{{"item": "{item}"}}"#))
}

/// The id of the order that a retry over gRPC gets.
async fn over_grpc(address: SocketAddr, key: Uuid, item: &str) -> String {
    let mut orders = OrderServiceClient::connect(format!("http://{address}")).await.expect("a connection");
    let mut request = tonic::Request::new(CreateOrderRequest { item: item.to_owned() });
    request.metadata_mut().insert("authorization", "Bearer alice-at-acme".parse().expect("metadata"));
    request.metadata_mut().insert("idempotency-key", key.to_string().parse().expect("metadata"));
    let replayed = orders.create_order(request).await.expect("a replay");
    assert_eq!(replayed.metadata().get("idempotent-replayed").expect("it is replayed"), "true");
    replayed.into_inner().order_id
}

fn json(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.body).expect("JSON")
}
