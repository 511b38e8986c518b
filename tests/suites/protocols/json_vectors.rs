//! protojson's vectors as Connect calls: each is handled, or refused as the caller's error. `protobuf-canonical` tests
//! how they are parsed.

use std::{
    path::Path,
    sync::{LazyLock, Mutex, PoisonError},
};

use ::http::{HeaderMap, Request, Response, StatusCode};
use base64::prelude::BASE64_STANDARD;
use http_body_util::{Full, StreamBody};
use prost_reflect::DescriptorPool;
use prost_types::{FileDescriptorProto, MethodDescriptorProto, ServiceDescriptorProto};
use serde::Deserialize;
use tonic_idempotency::connect::Connect;
use tower::ServiceExt as _;

use crate::prelude::*;

/// The tests of `protobuf-canonical`.
const CANONICAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/protobuf-canonical/tests");

#[derive(Deserialize)]
struct Vector {
    name: String,
    message: String,
    json: Option<String>,
    base64: Option<String>,
}

impl Vector {
    fn body(&self) -> Bytes {
        match (&self.json, &self.base64) {
            (Some(text), None) => text.clone().into(),
            (None, Some(text)) => BASE64_STANDARD.decode(text).expect("base64").into(),
            _ => panic!("{}: one text", self.name),
        }
    }
}

#[tokio::test]
async fn handles_or_refuses_each_vector() {
    let text = std::fs::read_to_string(Path::new(CANONICAL).join("vectors/json.json")).expect("vectors");
    let vectors: Vec<Vector> = serde_json::from_str(&text).expect("the vectors can be read");
    let (echo, mut failures, mut refused) = (Echo::new(), Vec::new(), 0);
    for vector in &vectors {
        let outcome = echo.send(&vector.message, vector.body()).await;
        if outcome.handled.is_none() {
            refused += 1;
            if !outcome.is_refusal() {
                failures.push(format!("{}: answered {} {:?}", vector.name, outcome.http, outcome.body));
            }
        }
    }
    assert!(refused > 500 && vectors.len() - refused > 500, "{refused} of {} are refused", vectors.len());
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), vectors.len(), failures.join("\n"));
}

/// The descriptors of the vectors' messages.
fn schema() -> DescriptorPool {
    let mut compiler = protox::Compiler::new([Path::new(CANONICAL).join("vectors/proto")]).expect("the folder exists");
    compiler.include_imports(true);
    compiler
        .open_files(["vectors/v1/vectors.proto", "vectors/v1/legacy.proto", "vectors/v1/json.proto"])
        .expect("the files compile");
    compiler.descriptor_pool()
}

/// Connect in front of a service that returns each message.
struct Echo {
    connect: Connect<Handler>,
    handled: Arc<Mutex<Option<Bytes>>>,
}

struct Outcome {
    http: StatusCode,
    body: Bytes,
    /// The message that the handler got.
    handled: Option<Bytes>,
}

type Handler = tower::util::BoxCloneSyncService<Request<Body>, Response<Body>, Infallible>;

impl Echo {
    fn new() -> Self {
        let handled: Arc<Mutex<Option<Bytes>>> = Arc::default();
        let recorded = Arc::clone(&handled);
        let handler = tower::service_fn(move |request: Request<Body>| {
            let recorded = Arc::clone(&recorded);
            async move {
                let frame = request.into_body().collect().await.expect("a body").to_bytes();
                *recorded.lock().unwrap_or_else(PoisonError::into_inner) = Some(frame.slice(5..));
                let trailers: HeaderMap =
                    [("grpc-status".parse().expect("a name"), "0".parse().expect("a value"))].into_iter().collect();
                let frames = [http_body::Frame::data(frame), http_body::Frame::trailers(trailers)];
                let body = Body::new(StreamBody::new(tokio_stream::iter(frames.map(Ok::<_, Infallible>))));
                let response = Response::builder().header("content-type", "application/grpc").body(body);
                Ok(response.expect("a response"))
            }
        });
        let connect = ConnectLayer::new(pool().clone()).expect("descriptors").layer(Handler::new(handler));
        Self { connect, handled }
    }

    async fn send(&self, message: &str, json: Bytes) -> Outcome {
        let method = message.rsplit('.').next().expect("a name");
        let request = Request::post(format!("/vectors.v1.Echo/{method}"))
            .header("content-type", "application/json")
            .body(Body::new(Full::new(json)))
            .expect("a request");
        let Ok(response) = self.connect.clone().oneshot(request).await;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.expect("a body without errors").to_bytes();
        let handled = self.handled.lock().unwrap_or_else(PoisonError::into_inner).take();
        Outcome { http: parts.status, body, handled }
    }
}

impl Outcome {
    /// Whether the answer blames the caller.
    fn is_refusal(&self) -> bool {
        self.http == StatusCode::BAD_REQUEST
            && serde_json::from_slice::<Value>(&self.body).expect("JSON").get("code").and_then(Value::as_str)
                == Some("invalid_argument")
    }
}

/// The descriptors, plus a service with a procedure for each message.
fn pool() -> &'static DescriptorPool {
    static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
        let mut pool = schema();
        let messages = pool.all_messages().filter(|message| message.package_name() == "vectors.v1");
        let (names, types): (Vec<_>, Vec<_>) = messages
            .filter(|it| it.parent_message().is_none())
            .map(|it| (it.name().to_owned(), format!(".{}", it.full_name())))
            .unzip();
        let method = |(name, of): (String, String)| MethodDescriptorProto {
            name: Some(name),
            input_type: Some(of.clone()),
            output_type: Some(of),
            ..MethodDescriptorProto::default()
        };
        let service = ServiceDescriptorProto {
            name: Some("Echo".to_owned()),
            method: names.into_iter().zip(types).map(method).collect(),
            ..ServiceDescriptorProto::default()
        };
        let file = FileDescriptorProto {
            name: Some("vectors/v1/echo.proto".to_owned()),
            package: Some("vectors.v1".to_owned()),
            dependency: ["vectors", "legacy", "json"].map(|file| format!("vectors/v1/{file}.proto")).into(),
            service: vec![service],
            syntax: Some("proto3".to_owned()),
            ..FileDescriptorProto::default()
        };
        pool.add_file_descriptor_proto(file).expect("a service");
        pool
    });
    &POOL
}
