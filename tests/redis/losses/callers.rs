//! The callers, and what they have seen.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use tonic::{
    Response, Status,
    service::{Routes, interceptor::InterceptedService},
    transport::Channel,
};
use tonic_idempotency::{
    IdempotencyLayer,
    policy::LeasePolicy,
    status::{OutboxStatus, Resource, StatusResolver},
};
use tonic_idempotency_redis::RedisStore;
use tonic_idempotency_tests::shop::{
    self, FILE_DESCRIPTOR_SET,
    proto::{CreateOrderReply, shop_client::ShopClient, shop_server::ShopServer},
};
use tower_layer::Layer as _;
use uuid::Uuid;

use crate::orders::Orders;

/// The time between two attempts of a call.
const PAUSE: Duration = Duration::from_millis(20);

/// A call that is not answered within this time is given up: nothing was promised of it.
const PATIENCE: Duration = Duration::from_secs(60);

/// What was measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tally {
    /// The calls that have succeeded, from the view of their callers.
    pub(crate) answered: usize,
    /// Those of them whose retry has another order.
    pub(crate) lost: usize,
    /// The orders beside the first of each call, those of the retries included.
    pub(crate) duplicates: u32,
}

/// A shop, and callers that create orders until they are told to stop.
#[derive(Debug)]
pub(crate) struct Callers {
    orders: Orders,
    client: ShopClient<Channel>,
    stop: Arc<AtomicBool>,
    running: JoinSet<HashMap<(Uuid, Uuid), String>>,
}

impl Callers {
    pub(crate) async fn start(store: RedisStore, callers: usize) -> Result<Self, Box<dyn std::error::Error>> {
        // A retry is always answered by the store. Nothing runs again but what the store has lost.
        let layer = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET)
            .store(store)
            .status_resolver(Done)
            .replay_cache_bytes(0)
            .adjust_procedures(|procedure| procedure.on_lease_ended(LeasePolicy::Refuse))
            .build()?;
        let orders = Orders::default();
        let shop = InterceptedService::new(layer.layer(ShopServer::new(orders.clone())), shop::authenticate);
        let client = shop::client(shop::serve(Routes::new(shop)).await).await;
        let (stop, mut running) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
        for _ in 0..callers {
            let (client, stop) = (client.clone(), Arc::clone(&stop));
            running.spawn(async move {
                let (user, mut answered) = (Uuid::new_v4(), HashMap::new());
                while !stop.load(Ordering::Relaxed) {
                    let key = Uuid::new_v4();
                    if let Some(order) = create(&client, user, key).await {
                        answered.insert((user, key), order);
                    }
                }
                answered
            });
        }
        Ok(Self { orders, client, stop, running })
    }

    /// Lets the callers end, and retries all calls that were answered.
    pub(crate) async fn finish(self) -> Tally {
        self.stop.store(true, Ordering::Relaxed);
        let answered: Vec<_> = self.running.join_all().await.into_iter().flatten().collect();
        let (total, mut lost) = (answered.len(), 0);
        let share = total.div_ceil(16).max(1);
        let mut retries = JoinSet::new();
        for calls in answered.chunks(share) {
            let (calls, client) = (calls.to_vec(), self.client.clone());
            retries.spawn(async move {
                let mut lost = 0;
                for ((user, key), order) in calls {
                    lost += usize::from(create(&client, user, key).await.as_ref() != Some(&order));
                }
                lost
            });
        }
        for of_share in retries.join_all().await {
            lost += of_share;
        }
        Tally { answered: total, lost, duplicates: self.orders.duplicates() }
    }
}

/// Creates an order, as often as it takes; `None` if it takes too long.
async fn create(client: &ShopClient<Channel>, user: Uuid, key: Uuid) -> Option<String> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        let call: Result<Response<CreateOrderReply>, Status> =
            client.clone().create_order(shop::request("a", Some(user), Some(key))).await;
        match call {
            Ok(response) => return response.into_inner().order.map(|order| order.id),
            Err(_) => sleep(PAUSE).await,
        }
    }
    None
}

/// Says that the work behind each order is done.
#[derive(Debug)]
struct Done;

impl StatusResolver for Done {
    type Error = std::io::Error;

    async fn status(
        &self,
        _: &tonic_idempotency::Caller,
        _: &Resource,
    ) -> Result<Option<OutboxStatus>, Self::Error> {
        Ok(Some(OutboxStatus::Completed))
    }
}
