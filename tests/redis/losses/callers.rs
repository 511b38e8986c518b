//! The callers, and what they have seen.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use quickstart::{
    FILE_DESCRIPTOR_SET,
    proto::{CreateOrderRequest, order_service_client::OrderServiceClient, order_service_server::OrderServiceServer},
};
use tokio::{
    net::TcpListener,
    task::JoinSet,
    time::{Instant, sleep},
};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{
    Request,
    service::InterceptorLayer,
    transport::{Channel, Server},
};
use tonic_idempotency::{IdempotencyLayer, UserId, policy::LeasePolicy};
use tonic_idempotency_redis::RedisStore;
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
    client: OrderServiceClient<Channel>,
    stop: Arc<AtomicBool>,
    running: JoinSet<HashMap<Uuid, String>>,
}

impl Callers {
    pub(crate) async fn start(store: RedisStore, callers: usize) -> Result<Self, Box<dyn std::error::Error>> {
        // A retry is always answered by the store. Nothing runs again but what the store has lost.
        let layer = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET)
            .store(store)
            .replay_cache_bytes(0)
            .adjust_procedures(|procedure| procedure.on_lease_ended(LeasePolicy::Refuse))
            .build()?;
        let orders = Orders::default();
        // One user for all calls.
        let authenticate = InterceptorLayer::new(|mut request: Request<()>| {
            request.extensions_mut().insert(UserId::new(Uuid::from_u128(1)));
            Ok(request)
        });
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let service = OrderServiceServer::new(orders.clone());
        let server = Server::builder().layer(authenticate).layer(layer).add_service(service);
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        let client = OrderServiceClient::connect(format!("http://{address}")).await?;
        let (stop, mut running) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
        for _ in 0..callers {
            let (client, stop) = (client.clone(), Arc::clone(&stop));
            running.spawn(async move {
                let mut answered = HashMap::new();
                while !stop.load(Ordering::Relaxed) {
                    let key = Uuid::new_v4();
                    if let Some(order) = create(&client, key).await {
                        answered.insert(key, order);
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
                for (key, order) in calls {
                    lost += usize::from(create(&client, key).await.as_ref() != Some(&order));
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
async fn create(client: &OrderServiceClient<Channel>, key: Uuid) -> Option<String> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        let mut request = Request::new(CreateOrderRequest { item: "a lamp".to_owned() });
        request.metadata_mut().insert("idempotency-key", key.to_string().parse().ok()?);
        match client.clone().create_order(request).await {
            Ok(response) => return Some(response.into_inner().order_id),
            Err(_) => sleep(PAUSE).await,
        }
    }
    None
}
