//! The quickstart's service with a handler of the test's own.

use futures_util::future::BoxFuture;
use quickstart::proto::order_service_server::OrderService;
use tokio::task::JoinHandle;
use tonic::Response;
use tonic_idempotency::{
    layer::BuildError,
    policy::{Mode, ProcedureBuilder},
    store::Store,
    testing::{Called, HarnessStore},
};

use super::prelude::*;

pub(crate) const CREATE: &str = "/orders.v1.OrderService/CreateOrder";

/// A handler that runs this function, which returns the id of the order.
#[derive(Debug)]
pub(crate) struct Orders<F>(pub(crate) F);

#[tonic::async_trait]
impl<F, A> OrderService for Orders<F>
where
    F: Fn(Request<CreateOrderRequest>) -> A + Send + Sync + 'static,
    A: Future<Output = Result<String, Status>> + Send + 'static,
{
    async fn create_order(
        &self,
        request: Request<CreateOrderRequest>,
    ) -> Result<Response<CreateOrderResponse>, Status> {
        let order_id = (self.0)(request).await?;
        Ok(Response::new(CreateOrderResponse { order_id }))
    }
}

/// Creates an order with a new id; fails if the item is `nothing`, and panics if it is `panic`.
pub(crate) async fn create(request: Request<CreateOrderRequest>) -> Result<String, Status> {
    match &*request.get_ref().item {
        "nothing" => Err(Status::not_found("no such item")),
        "panic" => panic!("the handler was told to"),
        _ => Ok(Uuid::new_v4().to_string()),
    }
}

/// Creates an order when the test lets it.
pub(crate) fn hold(
    gate: &Arc<Semaphore>,
) -> impl Fn(Request<CreateOrderRequest>) -> BoxFuture<'static, Result<String, Status>> + use<> {
    let gate = Arc::clone(gate);
    move |request| {
        let gate = Arc::clone(&gate);
        Box::pin(async move {
            gate.acquire().await.map_err(|_| Status::aborted("closed"))?.forget();
            create(request).await
        })
    }
}

/// A harness for such a handler, on a store in memory, with another description of its procedure.
pub(crate) fn harness<F, A>(
    handler: F,
    describe: impl FnOnce(ProcedureBuilder) -> ProcedureBuilder,
) -> (Harness, OrderServiceClient<InProcess>)
where
    F: Fn(Request<CreateOrderRequest>) -> A + Send + Sync + 'static,
    A: Future<Output = Result<String, Status>> + Send + 'static,
{
    on(MemoryStore::new().accept_transactions(), handler, describe)
}

/// The same, on another store.
pub(crate) fn on<S, F, A>(
    store: S,
    handler: F,
    describe: impl FnOnce(ProcedureBuilder) -> ProcedureBuilder,
) -> (Harness<S>, OrderServiceClient<InProcess>)
where
    S: Store,
    F: Fn(Request<CreateOrderRequest>) -> A + Send + Sync + 'static,
    A: Future<Output = Result<String, Status>> + Send + 'static,
{
    let procedure = describe(Procedure::builder(CREATE));
    let build = move |store: HarnessStore<S>| -> Result<_, BuildError> {
        IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(store).procedure(procedure.clone()).build()
    };
    let harness = Harness::with_layer(store, build, OrderServiceServer::new(Orders(handler)));
    let client = OrderServiceClient::new(harness.channel());
    (harness, client)
}

pub(crate) fn transactional(procedure: ProcedureBuilder) -> ProcedureBuilder {
    procedure.mode(Mode::Transactional)
}

pub(crate) fn order(item: &str) -> CreateOrderRequest {
    CreateOrderRequest { item: item.to_owned() }
}

/// Orders an item with a key.
pub(crate) async fn call<S: Store>(
    harness: &Harness<S>,
    client: &OrderServiceClient<InProcess>,
    key: Uuid,
    item: &str,
) -> Called<CreateOrderResponse> {
    let mut client = client.clone();
    harness.call(key, order(item), |request| client.create_order(request)).await
}

/// Orders an item in a task of its own, and waits until the handler runs.
pub(crate) async fn running<S: Store>(
    harness: &Harness<S>,
    client: &OrderServiceClient<InProcess>,
    key: Uuid,
    item: &'static str,
) -> JoinHandle<Called<CreateOrderResponse>> {
    let (runs, calling, client) = (harness.runs(), harness.clone(), client.clone());
    let running = tokio::spawn(async move { call(&calling, &client, key, item).await });
    until("the handler runs", async || harness.runs() > runs).await;
    running
}
