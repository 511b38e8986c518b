//! The service whose calls are made: it counts the orders of each key.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use quickstart::proto::{CreateOrderRequest, CreateOrderResponse, order_service_server::OrderService};
use tokio::time::sleep;
use tonic::{Request, Response, Status};
use tonic_idempotency::IdempotencyKey;
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
impl OrderService for Orders {
    async fn create_order(
        &self,
        request: Request<CreateOrderRequest>,
    ) -> Result<Response<CreateOrderResponse>, Status> {
        let key = request.extensions().get::<IdempotencyKey>().map(ToString::to_string);
        *self.lock().entry(key.ok_or_else(|| Status::internal("a call without a key"))?).or_default() += 1;
        sleep(WORK).await;
        Ok(Response::new(CreateOrderResponse { order_id: Uuid::new_v4().to_string() }))
    }
}
