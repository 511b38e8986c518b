//! The service: each order is a line in a file, which can be counted.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use tokio::time::sleep;
use tonic::{Request, Response, Status, metadata::MetadataValue};
use uuid::Uuid;

use crate::fault::{Fault, Faults};
use proto::{CreateOrderRequest, CreateOrderResponse};

#[allow(missing_docs, missing_debug_implementations, unreachable_pub, reason = "generated")]
pub(crate) mod proto {
    tonic::include_proto!("check.v1");
}

pub(crate) const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/shop.bin"));

/// How long a handler takes, so that whoever comes at once comes while it runs.
const WORK: Duration = Duration::from_millis(50);

/// The header with the time in milliseconds that a handler takes longer.
const SLOW: &str = "x-slow";

pub(crate) struct Shop {
    folder: PathBuf,
    faults: Faults,
}

impl Shop {
    pub(crate) fn new(folder: &Path, faults: Faults) -> Self {
        Self { folder: folder.to_owned(), faults }
    }

    async fn create(&self, request: Request<CreateOrderRequest>) -> Result<Response<CreateOrderResponse>, Status> {
        let slow = request.metadata().get(SLOW).and_then(|time| time.to_str().ok()?.parse().ok());
        let time = WORK + Duration::from_millis(slow.unwrap_or_default());
        let CreateOrderRequest { reference, item, .. } = request.into_inner();
        if reference.is_empty() {
            return Err(Status::invalid_argument("reference is missing"));
        }
        if self.faults.has(Fault::EffectFirst) {
            self.take_effect(&reference)?;
            sleep(time).await;
        } else {
            sleep(time).await;
            self.take_effect(&reference)?;
        }
        let order = CreateOrderResponse { order_id: Uuid::new_v4().to_string(), item, created: now() };
        let mut response = Response::new(order);
        response.metadata_mut().insert("x-region", MetadataValue::from_static("eu"));
        Ok(response)
    }

    fn take_effect(&self, reference: &str) -> io::Result<()> {
        let folder = self.folder.join("effects");
        fs::create_dir_all(&folder)?;
        let mut file = OpenOptions::new().create(true).append(true).open(folder.join(reference))?;
        file.write_all(b"an order\n")
    }
}

/// In nanoseconds since 1970.
pub(crate) fn now() -> u64 {
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[tonic::async_trait]
impl proto::shop_server::Shop for Shop {
    type WatchOrdersStream = tokio_stream::Empty<Result<CreateOrderResponse, Status>>;

    async fn create_order(
        &self,
        request: Request<CreateOrderRequest>,
    ) -> Result<Response<CreateOrderResponse>, Status> {
        self.create(request).await
    }

    async fn create_refund(
        &self,
        request: Request<CreateOrderRequest>,
    ) -> Result<Response<CreateOrderResponse>, Status> {
        self.create(request).await
    }

    async fn watch_orders(&self, _: Request<CreateOrderRequest>) -> Result<Response<Self::WatchOrdersStream>, Status> {
        Ok(Response::new(tokio_stream::empty()))
    }
}
