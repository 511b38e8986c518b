//! A newcomer's service and its clients, which are the snippets of `docs/getting-started.md` and of the README.

use std::time::Duration;

use sqlx::{
    PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use tcp_proxy::{Cut, Direction, Moment, Proxy};
use tokio::net::{TcpListener, TcpStream};
use tonic::{Status, metadata::MetadataMap, transport::Endpoint};
use tonic_idempotency::{migrations, store::Schema};

/// The generated code of the page's proto.
#[allow(missing_docs, unreachable_pub, missing_debug_implementations)]
mod proto {
    tonic::include_proto!("orders.v1");
}

const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/orders.bin"));

// `build.rs` takes them from the pages.
#[allow(missing_docs, unreachable_pub, missing_debug_implementations, reason = "they are the pages'")]
mod snippets {
    use super::{FILE_DESCRIPTOR_SET, proto, verify};
    include!(concat!(env!("OUT_DIR"), "/newcomer.rs"));
}

use snippets::{client::client, handler::Orders, server::serve, with_journal::with_journal};

/// The newcomer's own authentication: one user of one tenant.
fn verify(_: &MetadataMap) -> Result<(String, String), Status> {
    Ok(("auth0|newcomer".to_owned(), "acme".to_owned()))
}

/// The newcomer's database, after step 2 of the page; the pool logs in as the API's role.
async fn pool(database: &scratch_postgres::TestDatabase) -> PgPool {
    let mut owner = database.connect().await;
    migrations::run(&mut owner, &Schema::default()).await.expect("the migrations run");
    let role = "CREATE ROLE newcomer_api LOGIN PASSWORD 'newcomer'"; // the server may have it from another run
    let made = owner.batch_execute(role).await;
    assert!(made.is_ok() || made.is_err_and(|error| error.code().is_some_and(|code| code.code() == "42710")));
    owner
        .batch_execute(
            "CREATE TABLE orders (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), item text NOT NULL);
             GRANT SELECT, INSERT ON orders TO newcomer_api;
             SELECT tenant.idempotency_grant('newcomer_api')",
        )
        .await
        .expect("the newcomer's table is made");
    let login: PgConnectOptions = database.url().parse().expect("a URL");
    let login = login.username("newcomer_api").password("newcomer");
    PgPoolOptions::new().connect_with(login).await.expect("a pool")
}

/// A free address. The page's server listens by itself.
async fn address() -> std::net::SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    listener.local_addr().expect("an address")
}

#[tokio::test]
async fn a_service_from_the_pages_that_loses_its_network_in_the_middle_ends_with_one_row() {
    let database = scratch_postgres::database(None).await;
    let (pool, address) = (pool(&database).await, address().await);
    let (served, count) = (pool.clone(), pool.clone());
    let server = tokio::spawn(async move { serve(served, Orders, address).await.map_err(|error| error.to_string()) });
    while TcpStream::connect(address).await.is_err() {
        assert!(!server.is_finished(), "the server ended: {:?}", server.await);
        tokio::task::yield_now().await;
    }
    let proxy = Proxy::start(address).expect("a proxy");
    let channel = Endpoint::new(format!("http://{}", proxy.address())).expect("an address").connect_lazy();
    let journal = std::env::temp_dir().join(format!("{}.journal", uuid::Uuid::new_v4()));
    let clients = [client(channel.clone(), &journal), with_journal(channel, &journal)];

    // In the request, and in the answer: the call is not carried out, or its answer is lost.
    let moments =
        [Direction::Requests, Direction::Answers].map(|direction| [0, 60, 120, 180].map(|left| (direction, left)));
    for ((number, mut orders), (direction, left)) in clients
        .into_iter()
        .map(|client| client.expect("a client"))
        .enumerate()
        .flat_map(|client| moments.into_iter().flatten().map(move |moment| (client.clone(), moment)))
    {
        let item = format!("{number} {direction:?} {left}");
        proxy.forget_cuts();
        proxy.cut_later(Cut { all: true, moment: Moment::Bytes { direction, left } }, || {});
        let request = proto::CreateOrderRequest { item: item.clone() };
        let call = tokio::time::timeout(Duration::from_secs(60), orders.create_order(request)).await;
        let order = call.expect("in time").unwrap_or_else(|status| panic!("{item}: {status}")).into_inner();
        let select = sqlx::query_scalar("SELECT id::text FROM orders WHERE item = $1").bind(&item);
        let ids: Vec<String> = select.fetch_all(&count).await.expect("the rows");
        assert_eq!(ids, [order.order_id], "{item}");
    }
    assert!(!server.is_finished());
    server.abort();
    std::fs::remove_file(journal).expect("the journal's file");
}
