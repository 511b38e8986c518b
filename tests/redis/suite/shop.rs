//! The quickstart's service behind the layer, and its client.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use quickstart::{
    FILE_DESCRIPTOR_SET,
    proto::{
        CreateOrderRequest, CreateOrderResponse,
        order_service_client::OrderServiceClient,
        order_service_server::{OrderService, OrderServiceServer},
    },
};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{
    Request, Response, Status,
    service::InterceptorLayer,
    transport::{Channel, Server},
};
use tonic_idempotency::{
    IdempotencyLayer, UserId,
    layer::IdempotencyLayerBuilder,
    policy::{Policies, StorePolicy},
};
use uuid::Uuid;

/// The path of the procedure that [`Shop::create`] calls.
pub(crate) const CREATE: &str = "/orders.v1.OrderService/CreateOrder";

/// A wrapped service that listens, a user and a key.
pub(crate) struct Shop {
    pub(crate) orders: Orders,
    client: OrderServiceClient<Channel>,
    pub(crate) key: Uuid,
}

/// Counts the orders.
#[derive(Clone, Debug, Default)]
pub(crate) struct Orders {
    started: Arc<AtomicUsize>,
}

impl Orders {
    /// The number of handlers that have started.
    pub(crate) fn started(&self) -> usize {
        self.started.load(Ordering::SeqCst)
    }
}

#[tonic::async_trait]
impl OrderService for Orders {
    async fn create_order(
        &self,
        request: Request<CreateOrderRequest>,
    ) -> Result<Response<CreateOrderResponse>, Status> {
        let started = self.started.fetch_add(1, Ordering::SeqCst) + 1;
        if request.get_ref().item == "fail at first" && started == 1 {
            return Err(Status::not_found("no such item"));
        }
        Ok(Response::new(CreateOrderResponse { order_id: Uuid::new_v4().to_string() }))
    }
}

impl Shop {
    pub(crate) async fn with(build: impl FnOnce(IdempotencyLayerBuilder) -> IdempotencyLayerBuilder) -> Self {
        // Replays come from the store, each time.
        let builder = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).replay_cache_bytes(0);
        let layer = build(builder).build().expect("the layer can be built");
        let (orders, user) = (Orders::default(), Uuid::new_v4());
        let authenticate = InterceptorLayer::new(move |mut request: Request<()>| {
            request.extensions_mut().insert(UserId::new(user));
            Ok(request)
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let service = OrderServiceServer::new(orders.clone());
        let server = Server::builder().layer(authenticate).layer(layer).add_service(service);
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        let client = OrderServiceClient::connect(format!("http://{address}")).await.expect("the server listens");
        Self { orders, client, key: Uuid::new_v4() }
    }

    pub(crate) async fn create(&self, item: &str) -> Result<Response<CreateOrderResponse>, Status> {
        let mut request = Request::new(CreateOrderRequest { item: item.to_owned() });
        request.metadata_mut().insert("idempotency-key", self.key.to_string().parse().expect("a UUID is metadata"));
        self.client.clone().create_order(request).await
    }
}

/// The default policies, but calls run unprotected while the store cannot be asked.
pub(crate) fn proceeding() -> Policies {
    Policies { on_store_unavailable: StorePolicy::Proceed, ..Policies::default() }
}
