//! The service whose calls are made: it counts the orders of each key.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::sleep;
use tonic::{Request, Response, Status};
use tonic_idempotency::IdempotencyKey;
use tonic_idempotency_tests::shop::proto::{
    CreateOrderReply, CreateOrderRequest, Order, PayReply, TouchReply, shop_server::Shop,
};
use uuid::Uuid;

/// How long an order takes: a primary is killed in the middle of some.
const WORK: Duration = Duration::from_millis(5);

/// The number of orders of each key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Orders(Arc<Mutex<HashMap<String, u32>>>);

impl Orders {
    /// Returns how many orders there are beside the first of each key.
    pub(crate) fn duplicates(&self) -> u32 {
        self.lock().values().map(|orders| orders - 1).sum()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[tonic::async_trait]
impl Shop for Orders {
    async fn create_order(&self, request: Request<CreateOrderRequest>) -> Result<Response<CreateOrderReply>, Status> {
        let key = request.extensions().get::<IdempotencyKey>().map(ToString::to_string);
        let key = key.ok_or_else(|| Status::internal("a call without a key"))?;
        *self.lock().entry(key.clone()).or_default() += 1;
        sleep(WORK).await;
        let order = Order { id: Uuid::new_v4().to_string(), name: request.into_inner().name };
        Ok(Response::new(CreateOrderReply { order: Some(order), key }))
    }

    async fn pay(&self, _: Request<CreateOrderRequest>) -> Result<Response<PayReply>, Status> {
        Err(Status::unimplemented("orders only"))
    }

    async fn touch(&self, _: Request<CreateOrderRequest>) -> Result<Response<TouchReply>, Status> {
        Err(Status::unimplemented("orders only"))
    }

    async fn cancel(&self, _: Request<CreateOrderRequest>) -> Result<Response<TouchReply>, Status> {
        Err(Status::unimplemented("orders only"))
    }

    async fn get_order(&self, _: Request<CreateOrderRequest>) -> Result<Response<CreateOrderReply>, Status> {
        Err(Status::unimplemented("orders only"))
    }

    type WatchOrdersStream = tokio_stream::Empty<Result<CreateOrderReply, Status>>;

    async fn watch_orders(&self, _: Request<CreateOrderRequest>) -> Result<Response<Self::WatchOrdersStream>, Status> {
        Err(Status::unimplemented("orders only"))
    }
}
