//! The service in the tests of the protocols, for tonic and for `connectrpc`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use base64::Engine as _;
use connectrpc::{ConnectError, ErrorCode, ErrorDetail, RequestContext, ServiceRequest, ServiceResult, ServiceStream};
use http::{Extensions, HeaderMap, HeaderName, HeaderValue};
use prost::Message as _;
use tokio::sync::Semaphore;
use tokio_postgres::types::Type;
use tonic::{Code, Request, Response, Status, metadata::MetadataMap};
use tonic_idempotency::{Execution, Transaction};
use tonic_types::{ErrorDetails, StatusExt as _};
use uuid::Uuid;

/// The package `catalog.v1`, for tonic.
#[allow(missing_docs, missing_debug_implementations)]
pub mod proto {
    tonic::include_proto!("catalog.v1");
}

/// The package `catalog.v1`, for `connectrpc`.
#[allow(missing_docs, missing_debug_implementations, unreachable_pub, clippy::all)]
pub mod native {
    include!(concat!(env!("OUT_DIR"), "/native/catalog.rs"));
    pub use catalog::v1::*;
}

/// The descriptors, with their options.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/catalog.fds"));

/// The handlers of both servers. Counts their work, and holds handlers that are told to wait.
#[derive(Clone, Debug)]
pub struct Desk {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    started: AtomicUsize,
    finished: AtomicUsize,
    gate: Semaphore,
}

/// The results of a script's steps.
struct Done {
    id: String,
    padding: String,
}

impl Default for Desk {
    fn default() -> Self {
        let inner = Inner { started: AtomicUsize::new(0), finished: AtomicUsize::new(0), gate: Semaphore::new(0) };
        Self { inner: Arc::new(inner) }
    }
}

impl Desk {
    /// The number of handlers that have started.
    pub fn started(&self) -> usize {
        self.inner.started.load(Ordering::SeqCst)
    }

    /// The number of handlers that have succeeded, which is the number of effects.
    pub fn finished(&self) -> usize {
        self.inner.finished.load(Ordering::SeqCst)
    }

    /// Lets this many held handlers continue.
    pub fn open(&self, handlers: usize) {
        self.inner.gate.add_permits(handlers);
    }

    /// Carries out the steps of a script; `catalog.proto` describes them.
    async fn work(&self, script: &str, extensions: &Extensions) -> Result<Done, Status> {
        self.inner.started.fetch_add(1, Ordering::SeqCst);
        let mut padding = String::new();
        for step in script.split(" and ") {
            match step {
                "hold" => self.inner.gate.acquire().await.map_err(|_| Status::aborted("closed"))?.forget(),
                "padded" => padding = "padding ".repeat(1024),
                step => {
                    if let Some(code) = step.strip_prefix("fail with ").and_then(|code| code.parse().ok()) {
                        return Err(failure(Code::from_i32(code)));
                    }
                }
            }
        }
        let id = match Transaction::from_extensions(extensions) {
            Ok(transaction) => project(&transaction).await?,
            Err(_) => Uuid::new_v4(),
        };
        self.inner.finished.fetch_add(1, Ordering::SeqCst);
        Ok(Done { id: id.to_string(), padding })
    }

    async fn answer(&self, request: Request<proto::Item>) -> Result<Response<proto::Created>, Status> {
        let (metadata, extensions, item) = request.into_parts();
        let headers = metadata.into_headers();
        let done = self.work(&item.script, &extensions).await?;
        let seen = proto::Seen {
            protocol: "grpc".to_owned(),
            timeout: header(&headers, "grpc-timeout"),
            has_deadline: Execution::from_extensions(&extensions).deadline().is_some(),
            accept_encoding: header(&headers, "accept-encoding"),
        };
        let created = proto::Created { id: done.id, item: Some(item), seen: Some(seen), padding: done.padding };
        let mut response = Response::new(created);
        *response.metadata_mut() = MetadataMap::from_headers(metadata_of_both());
        Ok(response)
    }

    async fn answer_natively(
        &self,
        context: RequestContext,
        request: ServiceRequest<'_, native::Item>,
    ) -> ServiceResult<native::Created> {
        let item = request.to_owned_message();
        let done = self.work(&item.script, context.extensions()).await.map_err(natively)?;
        let deadline = Execution::from_extensions(context.extensions()).deadline().or(context.deadline());
        let seen = native::Seen {
            protocol: context.protocol().map(|protocol| protocol.to_string()).unwrap_or_default(),
            timeout: header(context.headers(), "grpc-timeout"),
            has_deadline: deadline.is_some_and(|deadline: Instant| deadline > Instant::now()),
            accept_encoding: header(context.headers(), "accept-encoding"),
            ..native::Seen::default()
        };
        let created = native::Created {
            id: done.id,
            item: buffa::MessageField::some(item),
            seen: buffa::MessageField::some(seen),
            padding: done.padding,
            ..native::Created::default()
        };
        let mut response = connectrpc::Response::new(created);
        response.headers = metadata_of_both();
        response.trailers.insert("catalog-trailer", HeaderValue::from_static("last"));
        Ok(response)
    }
}

#[tonic::async_trait]
impl proto::catalog_server::Catalog for Desk {
    async fn create(&self, request: Request<proto::Item>) -> Result<Response<proto::Created>, Status> {
        self.answer(request).await
    }

    async fn book(&self, request: Request<proto::Item>) -> Result<Response<proto::Created>, Status> {
        self.answer(request).await
    }

    async fn settle(&self, request: Request<proto::Item>) -> Result<Response<proto::Created>, Status> {
        self.answer(request).await
    }

    async fn queue(&self, request: Request<proto::Item>) -> Result<Response<proto::Created>, Status> {
        self.answer(request).await
    }

    async fn describe(&self, request: Request<proto::Item>) -> Result<Response<proto::Created>, Status> {
        self.answer(request).await
    }

    type WatchStream = tokio_stream::Once<Result<proto::Created, Status>>;

    async fn watch(&self, request: Request<proto::Item>) -> Result<Response<Self::WatchStream>, Status> {
        Ok(Response::new(tokio_stream::once(Ok(self.answer(request).await?.into_inner()))))
    }
}

#[allow(refining_impl_trait)]
impl native::Catalog for Desk {
    async fn create(
        &self,
        context: RequestContext,
        request: ServiceRequest<'_, native::Item>,
    ) -> ServiceResult<native::Created> {
        self.answer_natively(context, request).await
    }

    async fn book(
        &self,
        context: RequestContext,
        request: ServiceRequest<'_, native::Item>,
    ) -> ServiceResult<native::Created> {
        self.answer_natively(context, request).await
    }

    async fn settle(
        &self,
        context: RequestContext,
        request: ServiceRequest<'_, native::Item>,
    ) -> ServiceResult<native::Created> {
        self.answer_natively(context, request).await
    }

    async fn queue(
        &self,
        context: RequestContext,
        request: ServiceRequest<'_, native::Item>,
    ) -> ServiceResult<native::Created> {
        self.answer_natively(context, request).await
    }

    async fn describe(
        &self,
        context: RequestContext,
        request: ServiceRequest<'_, native::Item>,
    ) -> ServiceResult<native::Created> {
        self.answer_natively(context, request).await
    }

    async fn watch(
        &self,
        context: RequestContext,
        request: ServiceRequest<'_, native::Item>,
    ) -> ServiceResult<ServiceStream<native::Created>> {
        let response = self.answer_natively(context, request).await?;
        connectrpc::Response::stream_ok(tokio_stream::once(Ok(response.body)))
    }
}

/// Inserts a project with the handler's transaction.
async fn project(transaction: &Transaction) -> Result<Uuid, Status> {
    let insert = "INSERT INTO tenant.projects (cluster_id, name) SELECT id, $1 FROM tenant.clusters RETURNING id";
    let name = Uuid::new_v4().to_string();
    Ok(transaction.query_typed_one(insert, &[(&name, Type::TEXT)]).await?.get("id"))
}

/// An error that uses everything that a status can hold.
fn failure(code: Code) -> Status {
    let mut details = ErrorDetails::new();
    details.set_error_info("AS_ASKED", "catalog.example", [("shelf".to_owned(), "17".to_owned())]);
    let metadata = MetadataMap::from_headers(metadata_of_both());
    Status::with_error_details_and_metadata(code, "as asked: \u{2713} 100 %", details, metadata)
}

/// Converts an error for a `connectrpc` handler.
fn natively(status: Status) -> ConnectError {
    let code = ErrorCode::from_grpc_code(i32::from(status.code()).unsigned_abs()).unwrap_or(ErrorCode::Unknown);
    let details = tonic_types::pb::Status::decode(status.details()).unwrap_or_default().details;
    details.into_iter().fold(
        ConnectError::new(code, status.message()).with_headers(status.metadata().clone().into_headers()),
        |error, detail| {
            error.with_detail(ErrorDetail {
                type_url: "google.rpc.ErrorInfo".to_owned(),
                value: Some(base64::engine::general_purpose::STANDARD_NO_PAD.encode(detail.value)),
                debug: None,
            })
        },
    )
}

/// The metadata of every answer: one text value, one name with two values, and a binary value.
fn metadata_of_both() -> HeaderMap {
    [("catalog-region", "here"), ("catalog-note", "one"), ("catalog-note", "two"), ("catalog-trace-bin", "AHRyYWNl/w")]
        .into_iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect()
}

fn header(headers: &HeaderMap, name: &str) -> String {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}
