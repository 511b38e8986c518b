//! `cargo run --example quickstart`: a create call and its retries, with records in memory. It needs nothing but Rust.
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
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, service::InterceptorLayer, transport::Server};
use tonic_idempotency::{IdempotencyLayer, UserId, store::MemoryStore};
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
    let idempotency = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(MemoryStore::new()).build()?;
    // In front of the layer: authentication, which names the user. Here, one user for all calls.
    let authenticate = InterceptorLayer::new(|mut request: Request<()>| {
        request.extensions_mut().insert(UserId::new(Uuid::from_u128(1)));
        Ok(request)
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let routes = OrderServiceServer::new(Orders::default());
    let server = Server::builder().layer(authenticate).layer(idempotency).add_service(routes);
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));

    let mut orders = OrderServiceClient::connect(format!("http://{address}")).await?;
    let key = Uuid::new_v4().to_string(); // one key for each operation, the same with each attempt
    for (attempt, item) in [("first attempt", "a lamp"), ("retry", "a lamp"), ("same key, another request", "a chair")]
    {
        println!("{attempt}:");
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
