//! The sample behind a consumer: what its clients want is delivered, and run as operations. Its answer is the acknowledgement.

use std::{
    convert::Infallible,
    env, fmt,
    marker::PhantomData,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Request, Response, request::Parts};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};
use organization::{
    ApiDatabase, Driver, Guard, InvitesReconciler, Overrides, TokioPostgres,
    proto::{
        cluster_service_server::ClusterServiceServer, invite_service_server::InviteServiceServer,
        project_service_server::ProjectServiceServer,
    },
};
use prost_reflect::DescriptorPool;
use protobuf_canonical::{Canonical, RequestHashes};
use tonic::{Code, Status, body::Body, server::NamedService, service::Routes};
use tonic_idempotency::{
    Caller, IdempotencyLayer,
    layer::IdempotencyLayerBuilder,
    policy::Procedure,
    rejection::DOMAIN,
    run::{Call, Codec, CodecError, DeadLetter, Operation, Outcome, RunError, Settlement},
    store::PostgresStore,
};
use tonic_types::{ErrorDetails, StatusExt as _};
use tower::{Service, ServiceExt as _};

use crate::error::Error;

/// The environment variable that is set if there is a consumer.
pub(crate) const DELIVERED: &str = "CHAOS_DELIVERED";

/// The length of the head of a frame.
const FRAME: usize = 5;

/// Whether there is a consumer.
pub(super) fn is_wanted() -> bool {
    env::var(DELIVERED).is_ok_and(|value| !value.is_empty())
}

/// The sample's handlers, behind a consumer.
#[derive(Debug)]
pub(super) struct Consumer(TokioPostgres);

impl Driver for Consumer {
    type Store = PostgresStore;
    type InvitesReconciler = InvitesReconciler;

    fn new(database: &ApiDatabase, commit_delay: Duration) -> Result<Self, Error> {
        Ok(Self(TokioPostgres::new(database, commit_delay)?))
    }

    async fn store(&self, max_batch: Option<u16>) -> Result<PostgresStore, Error> {
        self.0.store(max_batch).await
    }

    fn complete(&self, builder: IdempotencyLayerBuilder, overrides: Overrides) -> IdempotencyLayerBuilder {
        let declare =
            |builder: IdempotencyLayerBuilder, name| builder.procedure(overrides.apply(Procedure::operation(name)));
        [Cluster::OPERATION, Invitation::OPERATION, Project::OPERATION].into_iter().fold(builder, declare)
    }

    fn invites_reconciler(&self) -> InvitesReconciler {
        self.0.invites_reconciler()
    }

    fn services(&self, guard: &Guard) -> Routes {
        let without_keys =
            IdempotencyLayer::builder([]).allow_no_procedures().build().expect("a layer without procedures");
        let handlers = self.0.services(&guard.with_layer(without_keys));
        Routes::default()
            .add_service(guard.authenticating(Deliveries::<Cluster>::new(guard, &handlers)))
            .add_service(guard.authenticating(Deliveries::<Invitation>::new(guard, &handlers)))
            .add_service(guard.authenticating(Deliveries::<Project>::new(guard, &handlers)))
    }

    async fn close(&self) {
        self.0.close().await;
    }
}

/// A kind of message that is delivered.
trait Delivery: 'static {
    /// The service that would be called.
    type Service: NamedService;
    const OPERATION: &'static str;
    const MESSAGE: &'static str;
}

struct Cluster;

impl Delivery for Cluster {
    type Service = ClusterServiceServer<()>;
    const OPERATION: &'static str = "deliveries/CreateCluster";
    const MESSAGE: &'static str = "organization.v1.CreateClusterRequest";
}

struct Invitation;

impl Delivery for Invitation {
    type Service = InviteServiceServer<()>;
    const OPERATION: &'static str = "deliveries/InviteMember";
    const MESSAGE: &'static str = "organization.v1.InviteMemberRequest";
}

struct Project;

impl Delivery for Project {
    type Service = ProjectServiceServer<()>;
    const OPERATION: &'static str = "deliveries/CreateProject";
    const MESSAGE: &'static str = "organization.v1.CreateProjectRequest";
}

/// Messages with the frame of gRPC, in which they are delivered and answered.
struct Framed<D>(Canonical, PhantomData<fn() -> D>);

impl<D: Delivery> Codec for Framed<D> {
    type Request = [u8];
    type Response = Vec<u8>;

    const NAME: &'static str = "framed";

    fn new(descriptors: &DescriptorPool) -> Result<Self, CodecError> {
        let message = descriptors.get_message_by_name(D::MESSAGE).ok_or("no such message")?;
        Ok(Self(Canonical::new(&message), PhantomData))
    }

    fn hash(&self, request: &[u8]) -> Result<[u8; 32], CodecError> {
        Ok(*self.0.hash(request.get(FRAME..).ok_or("no frame")?)?.as_bytes())
    }

    fn read(bytes: &[u8]) -> Result<Vec<u8>, CodecError> {
        Ok(bytes.to_vec())
    }

    fn hashes(&self, bytes: &[u8], _request: &[u8]) -> Result<RequestHashes, CodecError> {
        Ok(self.0.hashes(bytes.get(FRAME..).ok_or("no frame")?)?)
    }

    fn encode(response: &Vec<u8>) -> Result<Vec<u8>, CodecError> {
        Ok(response.clone())
    }

    fn decode(stored: &[u8]) -> Result<Vec<u8>, CodecError> {
        Ok(stored.to_vec())
    }
}

/// Has the sample handle a message, with the tools of the operation. Returns the framed response.
async fn handle(handlers: Routes, head: Parts, call: Call, message: Vec<u8>) -> Result<Vec<u8>, Status> {
    let mut request = Request::from_parts(head, Body::new(Full::from(message)));
    *request.extensions_mut() = call.extensions().clone();
    let Ok(response) = handlers.oneshot(request).await;
    let (head, body) = response.into_parts();
    let body = body.collect().await?;
    let trailers = body.trailers().cloned();
    match Status::from_header_map(trailers.as_ref().unwrap_or(&head.headers)) {
        Some(status) if status.code() != Code::Ok => Err(status),
        _ => Ok(body.to_bytes().to_vec()),
    }
}

/// Tells a client what a queue would be told: it tries again when a queue would deliver again.
fn settle<T>(ended: Result<Outcome<T>, RunError<Status>>) -> Result<Outcome<T>, Status> {
    let settlement = Settlement::of(&ended);
    let (code, after) = match settlement {
        Settlement::Redeliver { after } => (Code::Aborted, Some(after)),
        Settlement::DeadLetter(DeadLetter::IdReused) => (Code::InvalidArgument, None),
        Settlement::Acknowledge | Settlement::DeadLetter(_) => (Code::FailedPrecondition, None),
    };
    ended.map_err(|error| match error {
        RunError::Failed { .. } if settlement == Settlement::Acknowledge => {
            Status::data_loss("a message is acknowledged that did not take effect")
        }
        RunError::Failed { error, .. } => error,
        RunError::Refused { reason, message, .. } => {
            let mut details = ErrorDetails::with_error_info(reason.as_str(), DOMAIN, []);
            details.set_retry_info(after);
            Status::with_error_details(code, message, details)
        }
        error => Status::internal(error.to_string()),
    })
}

fn framed(message: Vec<u8>) -> Response<Body> {
    let trailers = HeaderMap::from_iter([(Status::GRPC_STATUS, HeaderValue::from_static("0"))]);
    let frames = [Ok::<_, Infallible>(Frame::data(message.into())), Ok(Frame::trailers(trailers))];
    let mut response = Response::new(Body::new(StreamBody::new(futures_util::stream::iter(frames))));
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    response
}

/// The deliveries of one kind.
struct Deliveries<D: Delivery> {
    operation: Operation<Framed<D>>,
    handlers: Routes,
}

impl<D: Delivery> Deliveries<D> {
    fn new(guard: &Guard, handlers: &Routes) -> Self {
        let operation = guard.layer().operation(D::OPERATION).expect("an operation that is declared");
        Self { operation, handlers: handlers.clone() }
    }

    async fn take(self, delivery: Request<Body>) -> Result<Response<Body>, Status> {
        let (head, body) = delivery.into_parts();
        let caller = head.extensions.get::<Caller>().cloned().ok_or_else(|| Status::internal("no caller"))?;
        let key = head.headers.get("idempotency-key").and_then(|key| key.to_str().ok()).unwrap_or_default().to_owned();
        let message = body.collect().await?.to_bytes();
        let handlers = self.handlers;
        let run = move |call: Call, message| handle(handlers, head, call, message);
        let outcome = settle(self.operation.receive(&caller, |_| key, &message, run).await)?;
        let replayed = outcome.is_replay();
        let mut answer = framed(outcome.into_inner());
        answer.headers_mut().insert("idempotency-status", HeaderValue::from_static("completed"));
        if replayed {
            answer.headers_mut().insert("idempotent-replayed", HeaderValue::from_static("true"));
        }
        Ok(answer)
    }
}

impl<D: Delivery> Clone for Deliveries<D> {
    fn clone(&self) -> Self {
        Self { operation: self.operation.clone(), handlers: self.handlers.clone() }
    }
}

impl<D: Delivery> fmt::Debug for Deliveries<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deliveries").field("operation", &self.operation).finish_non_exhaustive()
    }
}

impl<D: Delivery> NamedService for Deliveries<D> {
    const NAME: &'static str = D::Service::NAME;
}

impl<D: Delivery> Service<Request<Body>> for Deliveries<D> {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, delivery: Request<Body>) -> Self::Future {
        let taken = self.clone().take(delivery);
        Box::pin(async move { Ok(taken.await.unwrap_or_else(Status::into_http)) })
    }
}
