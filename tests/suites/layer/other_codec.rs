//! A service, and operations, whose messages are not prost's but rust-protobuf's, which come through codecs of the test.

use std::marker::PhantomData;

use bytes::{Buf as _, BufMut as _};
use futures_util::future::BoxFuture;
use prost_reflect::prost_types::{FileDescriptorProto, MethodDescriptorProto, ServiceDescriptorProto};
use protobuf::well_known_types::{
    api::Method,
    struct_::{Struct, Value},
};
use protobuf_canonical::Canonical;
use tonic::{
    Response,
    codec::{BufferSettings, DecodeBuf, Decoder, EncodeBuf, Encoder},
    server::Grpc,
};
use tonic_idempotency::{
    Execution, KeyId,
    policy::{Abandoned, Encoded, RebuildRequest, Reconciliation},
    run::{Call, Codec, CodecError, Operation, Outcome},
    testing::{Called, Harness},
};
use tower::{Service, service_fn};

use crate::prelude::*;

const CREATE: &str = "/jobs.v1.Jobs/Create";
const START: &str = "jobs.v1/Start";

/// The messages of gRPC, in each direction.
struct Messages<E, D>(PhantomData<fn(E) -> D>);

impl<E: protobuf::Message, D: protobuf::Message> tonic::codec::Codec for Messages<E, D> {
    type Encode = E;
    type Decode = D;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self(PhantomData)
    }

    fn decoder(&mut self) -> Self {
        Self(PhantomData)
    }
}

impl<E: protobuf::Message, D> Encoder for Messages<E, D> {
    type Item = E;
    type Error = Status;

    fn encode(&mut self, item: E, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&item.write_to_bytes().map_err(|error| Status::internal(error.to_string()))?);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::default()
    }
}

impl<E, D: protobuf::Message> Decoder for Messages<E, D> {
    type Item = D;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<D>, Status> {
        let message = D::parse_from_bytes(&buffer.copy_to_bytes(buffer.remaining()));
        message.map(Some).map_err(|error| Status::internal(error.to_string()))
    }
}

/// The messages of an operation.
struct Start(Canonical);

impl Codec for Start {
    type Request = Struct;
    type Response = Method;

    const NAME: &'static str = "rust-protobuf";

    fn new(descriptors: &DescriptorPool) -> Result<Self, CodecError> {
        Ok(Self(Canonical::new(&descriptors.get_message_by_name("google.protobuf.Struct").ok_or("no Struct")?)))
    }

    fn hash(&self, request: &Struct) -> Result<[u8; 32], CodecError> {
        Ok(*self.0.hash(&protobuf::Message::write_to_bytes(request)?)?.as_bytes())
    }

    fn read(bytes: &[u8]) -> Result<Struct, CodecError> {
        Ok(protobuf::Message::parse_from_bytes(bytes)?)
    }

    fn encode(response: &Method) -> Result<Vec<u8>, CodecError> {
        Ok(protobuf::Message::write_to_bytes(response)?)
    }

    fn decode(stored: &[u8]) -> Result<Method, CodecError> {
        Ok(protobuf::Message::parse_from_bytes(stored)?)
    }
}

/// The service: its response has the id of the job, and how often it was asked to do it.
#[derive(Clone)]
struct Jobs {
    asked: Arc<AtomicUsize>,
    /// Set once the layer is built, which is around the service.
    start: Arc<Mutex<Option<Operation<Start>>>>,
}

impl Service<http::Request<Body>> for Jobs {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<http::Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let jobs = self.clone();
        let create = service_fn(move |request: Request<Struct>| {
            let jobs = jobs.clone();
            async move {
                let asked = jobs.asked.fetch_add(1, Ordering::SeqCst) + 1;
                let execution = Execution::from_request(&request);
                if request.get_ref().fields.contains_key("lost") {
                    execution.effect_committed();
                    return Err(Status::unavailable("the answer is lost"));
                }
                let start = jobs.start.lock().expect("no panic").clone().expect("it is set");
                let started = start.run_within(&execution, "start", request.get_ref(), begin).await;
                assert!(started.expect("it runs").into_inner().request_streaming);
                Ok::<_, Status>(Response::new(job("17", asked)))
            }
        });
        Box::pin(async move { Ok(Grpc::new(Messages(PhantomData)).unary(create, request).await) })
    }
}

async fn begin(_call: Call) -> Result<Method, Infallible> {
    Ok(Method { request_streaming: true, ..Method::default() })
}

fn job(id: &str, asked: usize) -> Method {
    Method { name: id.to_owned(), request_type_url: asked.to_string(), ..Method::default() }
}

/// A request whose fields are in a hash map, and so in another order in each encoding.
fn request(fields: &[&str]) -> Struct {
    let letters = ('a'..='z').map(|letter| (letter.to_string(), Value::new()));
    let others = fields.iter().map(|field| ((*field).to_owned(), Value::new()));
    Struct { fields: letters.chain(others).collect(), ..Struct::default() }
}

fn descriptors() -> DescriptorPool {
    let method = MethodDescriptorProto {
        name: Some("Create".to_owned()),
        input_type: Some(".google.protobuf.Struct".to_owned()),
        output_type: Some(".google.protobuf.Method".to_owned()),
        ..MethodDescriptorProto::default()
    };
    let service = ServiceDescriptorProto { name: Some("Jobs".to_owned()), method: vec![method], ..Default::default() };
    let file = FileDescriptorProto {
        name: Some("jobs.proto".to_owned()),
        package: Some("jobs.v1".to_owned()),
        dependency: ["struct", "api"].map(|file| format!("google/protobuf/{file}.proto")).to_vec(),
        service: vec![service],
        ..FileDescriptorProto::default()
    };
    let mut pool = DescriptorPool::global();
    pool.add_file_descriptor_proto(file).expect("a service");
    pool
}

/// The service behind the layer.
fn jobs(change: fn(IdempotencyLayerBuilder) -> IdempotencyLayerBuilder) -> Harness {
    let build = move |store| {
        let create = Procedure::builder(CREATE).creates_untracked("job", "name").on_lease_ended(LeasePolicy::Reconcile);
        let start = Procedure::operation(START).creates_untracked("job", "google.protobuf.Method.name");
        let find = |_: Abandoned| async {
            Ok(Reconciliation::Completed(protobuf::Message::write_to_bytes(&job("17", 0))?.into()))
        };
        let builder = IdempotencyLayer::builder(descriptors()).store(store).procedure(create).procedure(start);
        change(builder.reconciler(CREATE, find)).build()
    };
    let jobs = Jobs { asked: Arc::default(), start: Arc::default() };
    let harness = Harness::with_layer(MemoryStore::new(), build, jobs.clone());
    *jobs.start.lock().expect("no panic") = Some(harness.layer().operation(START).expect("it is declared"));
    harness
}

async fn create(harness: &Harness, key: Uuid, fields: &[&str]) -> Called<Method> {
    let send = async |request| {
        let mut client = tonic::client::Grpc::new(harness.channel());
        client.ready().await.map_err(Status::from_error)?;
        let path = http::uri::PathAndQuery::from_static(CREATE);
        client.unary(request, path, Messages::<Struct, Method>(PhantomData)).await
    };
    harness.call(key, Request::new(request(fields)), send).await
}

#[tokio::test]
async fn is_hashed_replayed_and_reconciled() {
    let (harness, key) = (jobs(|builder| builder), Uuid::new_v4());
    assert_eq!(create(&harness, key, &[]).await.executed_once().into_message(), job("17", 1));
    assert_eq!(create(&harness, key, &[]).await.replayed().into_message(), job("17", 1));
    create(&harness, key, &["more"]).await.refused_with(Reason::KeyReused);
    assert_eq!(harness.record(key).await.resource().map(ToString::to_string), Some("17".to_owned()));

    let key = Uuid::new_v4();
    create(&harness, key, &["lost"]).await.failed_with(Code::Unavailable);
    assert_eq!(create(&harness, key, &["lost"]).await.replayed().into_message(), job("17", 0));
}

#[tokio::test]
async fn is_rebuilt() {
    let harness = jobs(|builder| {
        builder.rebuild(CREATE, |request: RebuildRequest| async move {
            let now = protobuf::Message::write_to_bytes(&job(&request.resource.id.to_text(), 100));
            now.map(|now| Encoded(now.into())).map_err(|error| Status::internal(error.to_string()))
        })
    });
    let key = Uuid::new_v4();
    create(&harness, key, &[]).await.executed_once();
    assert_eq!(create(&harness, key, &[]).await.replayed().into_message(), job("17", 100));
}

#[tokio::test]
async fn is_an_operations_request_and_outcome() {
    let harness = jobs(|builder| builder);
    let handler = |_| async { Ok::<_, Infallible>(job("18", 1)) };
    let (key, run) = (Uuid::new_v4().to_string(), async |key: &str, fields| {
        harness.run::<Start, _, _>(START, key, &request(fields), handler).await.expect("an answer")
    });
    for outcome in [Outcome::First(job("18", 1)), Outcome::Replayed(job("18", 1))] {
        assert_eq!(run(&key, &[]).await.expect("it runs"), outcome);
    }
    assert!(run(&key, &["more"]).await.is_err());
    let record = harness.record(*KeyId::of_operation(START, &key).as_uuid()).await;
    assert_eq!(record.resource().map(ToString::to_string), Some("18".to_owned()));
}
