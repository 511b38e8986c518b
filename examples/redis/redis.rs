//! `cargo run -p redis-example --example redis`: a create call and its retries, with records on Redis. The server is yours, if `REDIS_URL` is
//! set, or a private one, which needs Debian's `redis-server` and `redis-tools`.
#![expect(clippy::print_stdout, reason = "it shows what happens")]

use std::sync::atomic::{AtomicU32, Ordering};

use quickstart::{
    FILE_DESCRIPTOR_SET,
    proto::{
        CreateOrderRequest, CreateOrderResponse,
        order_service_client::OrderServiceClient,
        order_service_server::{OrderService, OrderServiceServer},
    },
};
use scratch_redis::Server as PrivateServer;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, service::InterceptorLayer, transport::Server};
use tonic_idempotency::{IdempotencyLayer, UserId};
use tonic_idempotency_redis::{RedisStore, redis::Client};
use uuid::Uuid;

#[derive(Default)]
struct Orders {
    created: AtomicU32,
}

#[tonic::async_trait]
impl OrderService for Orders {
    async fn create_order(
        &self,
        request: Request<CreateOrderRequest>,
    ) -> Result<Response<CreateOrderResponse>, Status> {
        let order_id = format!("order-{}", self.created.fetch_add(1, Ordering::Relaxed) + 1);
        println!("  the handler creates {order_id}: {}", request.into_inner().item);
        Ok(Response::new(CreateOrderResponse { order_id }))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Removed when this program ends.
    let mut private = None;
    let url = match std::env::var("REDIS_URL") {
        Ok(url) => url,
        Err(_) => private.insert(PrivateServer::start(&["appendonly yes"])?).url(),
    };
    let store = RedisStore::single(Client::open(url)?);
    store.verify().await?; // says what is wrong with the server's settings
    let first_server = serve(store.clone()).await?;
    let second_server = serve(store).await?;

    let key = Uuid::new_v4().to_string(); // one key for each operation, the same with each attempt
    for (attempt, address, item) in [
        ("first attempt", &first_server, "a lamp"),
        ("retry, at another server", &second_server, "a lamp"),
        ("same key, another request", &first_server, "a chair"),
    ] {
        println!("{attempt}:");
        let mut orders = OrderServiceClient::connect(address.clone()).await?;
        let mut request = Request::new(CreateOrderRequest { item: item.to_owned() });
        request.metadata_mut().insert("idempotency-key", key.parse()?);
        match orders.create_order(request).await {
            Ok(response) => {
                let replayed = response.metadata().contains_key("idempotent-replayed");
                println!("  answered {}, replayed: {replayed}", response.into_inner().order_id);
            }
            Err(status) => println!("  refused: {}", status.message()),
        }
    }
    Ok(())
}

/// Starts a server of the service, and returns its address.
async fn serve(store: RedisStore) -> Result<String, Box<dyn std::error::Error>> {
    let idempotency = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(store).build()?;
    // In front of the layer: authentication, which names the user. Here, one user for all calls.
    let authenticate = InterceptorLayer::new(|mut request: Request<()>| {
        request.extensions_mut().insert(UserId::new(Uuid::from_u128(1)));
        Ok(request)
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = format!("http://{}", listener.local_addr()?);
    let routes = OrderServiceServer::new(Orders::default());
    let server = Server::builder().layer(authenticate).layer(idempotency).add_service(routes);
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    Ok(address)
}
