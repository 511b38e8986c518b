//! What protobuf-go's protojson reads, vector by vector, sent as Connect calls. See `tests/vectors/README.md`.

use std::{
    convert::Infallible,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, StreamBody};
use prost_reflect::DescriptorPool;
use prost_types::{FileDescriptorProto, MethodDescriptorProto, ServiceDescriptorProto};
use serde::Deserialize;
use serde_json::Value;
use tonic::body::Body;
use tonic_idempotency::{
    canonical::Canonical,
    connect::{Connect, ConnectLayer},
};
use tower::ServiceExt as _;
use tower_layer::Layer as _;

use crate::schema;

/// Where protojson is not followed, and why.
const DIFFERENCES: [Difference; 14] = [
    Difference {
        name: "integers/not-json-but-accepted/",
        ours: Ours::Refused,
        why: "an exponent without digits is no JSON; protojson overlooks it",
    },
    Difference {
        name: "floats/fDouble/nan",
        ours: Ours::Accepted("09000000000000f87f"),
        why: "Go's NaN has a bit more than everybody else's, and what a client sends in JSON and in binary is the same",
    },
    Difference {
        name: "null/list-of-what-may-be-null/",
        ours: Ours::Accepted(""),
        why: "null is an empty list of anything, by protobuf's documentation; protojson refuses it of these two",
    },
    Difference {
        name: "timestamps/more-than-nanoseconds-behind-a-comma",
        ours: Ours::Refused,
        why: "protojson refuses more than nine digits behind a point, and cuts them off behind a comma",
    },
    too_deep("depth/messages/101"),
    too_deep("depth/messages/127"),
    too_deep("depth/messages/200"),
    too_deep("depth/lists/51"),
    too_deep("depth/lists/120"),
    too_deep("depth/lists/200"),
    too_deep("depth/any-in-any/9"),
    too_deep("depth/any-in-any/12"),
    too_deep("depth/structs/60"),
    too_deep("depth/any-of-lists/60"),
];

const fn too_deep(name: &'static str) -> Difference {
    Difference {
        name,
        ours: Ours::Refused,
        why: "messages are 100 deep at most, in binary too, and an Any counts for ten; protojson's limit is 10000",
    }
}

/// What is another message when it is written, or cannot be, and why.
const LOST: [(&str, &str); 3] = [
    ("null/null-value-with-another-number", "protojson writes null for it, too"),
    ("anys/field-called-type", "protojson writes \"@type\" twice for it, too"),
    ("depth/structs/34", "prost counts the entries of a map, and has read 100 messages in one another then"),
];

struct Difference {
    /// A vector, or with a slash at its end all whose names begin so.
    name: &'static str,
    ours: Ours,
    why: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ours {
    Accepted(&'static str),
    Refused,
}

#[derive(Deserialize)]
struct Vector {
    name: String,
    message: String,
    json: Option<String>,
    base64: Option<String>,
    canonical: Option<String>,
    #[serde(default)]
    error: bool,
}

impl Vector {
    fn body(&self) -> Bytes {
        match (&self.json, &self.base64) {
            (Some(text), None) => text.clone().into(),
            (None, Some(text)) => BASE64_STANDARD.decode(text).expect("base64").into(),
            _ => panic!("{}: one text", self.name),
        }
    }

    /// The canonical encoding; none where it is refused.
    fn expected(&self) -> Option<String> {
        assert_eq!(self.canonical.is_none(), self.error, "{}", self.name);
        self.canonical.clone()
    }

    fn difference(&self) -> Option<&'static Difference> {
        DIFFERENCES.iter().find(|it| self.is_in(it.name))
    }

    fn is_in(&self, name: &str) -> bool {
        self.name == name || name.ends_with('/') && self.name.starts_with(name)
    }

    /// Whether protojson has written the text without options.
    fn is_written_by_default(&self) -> bool {
        let mut parts = self.name.split('/').skip_while(|part| *part != "random").skip(2);
        parts.next().is_some_and(|message| message != "unpopulated") && parts.next() != Some("2")
    }
}

fn vectors() -> Vec<Vector> {
    serde_json::from_str(include_str!("../vectors/json.json")).expect("the vectors can be read")
}

#[tokio::test]
async fn reads_what_protojson_reads() {
    let (vectors, echo) = (vectors(), Echo::new());
    assert!(vectors.len() > 1500, "{} vectors", vectors.len());
    let mut failures = Vec::new();
    for vector in &vectors {
        let outcome = echo.send(&vector.message, vector.body()).await;
        let canonical = outcome.handled.as_ref().map(|message| canonical(&vector.message, message));
        let (name, expected) = (&vector.name, vector.expected());
        if canonical.is_none() && !outcome.is_refusal() {
            failures.push(format!("{name}: answered {} {:?}", outcome.http, outcome.body));
        }
        let expected = match vector.difference() {
            None => expected,
            Some(Difference { ours, why, .. }) => {
                let ours = match ours {
                    Ours::Accepted(bytes) => Some(bytes.to_string()),
                    Ours::Refused => None,
                };
                if ours == expected {
                    failures.push(format!("{name}: no difference any more: {why}"));
                }
                ours
            }
        };
        if canonical != expected {
            failures.push(format!("{name}: {:?}\n     gave {canonical:?}\n     not  {expected:?}", vector.body()));
        }
    }
    for Difference { name, .. } in &DIFFERENCES {
        if !vectors.iter().any(|vector| vector.is_in(name)) {
            failures.push(format!("{name} is no vector"));
        }
    }
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), vectors.len(), failures.join("\n"));
}

/// Its own reader is held to protojson's by the other test, and the texts of random messages are protojson's own.
#[tokio::test]
async fn what_it_writes_is_the_message_that_it_was_sent() {
    let (echo, mut failures) = (Echo::new(), Vec::new());
    let vectors = vectors();
    for (name, why) in LOST {
        assert!(vectors.iter().any(|vector| vector.is_in(name)), "{name} is no vector: {why}");
    }
    for vector in vectors {
        let (name, outcome) = (&vector.name, echo.send(&vector.message, vector.body()).await);
        let Some(message) = outcome.handled else { continue };
        let again = echo.send(&vector.message, outcome.body.clone()).await.handled;
        let is_same =
            again.is_some_and(|again| canonical(&vector.message, &again) == canonical(&vector.message, &message));
        if is_same == LOST.iter().any(|(name, _)| vector.is_in(name)) {
            failures.push(format!("{name}: {:?} is the same message: {is_same}", outcome.body));
        }
        if vector.is_written_by_default() && value(&vector.body()) != value(&outcome.body) {
            failures.push(format!("{name}:\n     {:?}\n     {:?}", vector.body(), outcome.body));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// JSON, whose numbers are the same however they are written.
fn value(json: &[u8]) -> Value {
    fn written_alike(value: Value) -> Value {
        match value {
            Value::Number(number) => number.as_f64().into(),
            Value::Array(list) => list.into_iter().map(written_alike).collect(),
            // With or without, to either.
            Value::Object(mut members)
                if members
                    .get("@type")
                    .and_then(Value::as_str)
                    .is_some_and(|of| of.ends_with("/google.protobuf.Empty")) =>
            {
                members.remove("value");
                members.into()
            }
            Value::Object(members) => members.into_iter().map(|(name, value)| (name, written_alike(value))).collect(),
            value => value,
        }
    }
    written_alike(serde_json::from_slice(json).expect("JSON"))
}

/// In hex; or why there is none.
fn canonical(message: &str, binary: &[u8]) -> String {
    Canonical::new(&schema::message(message)).encode(binary).map_or_else(|error| error.to_string(), hex::encode)
}

/// Connect in front of a service that answers each message with itself.
struct Echo {
    connect: Connect<Handler>,
    handled: Arc<Mutex<Option<Bytes>>>,
}

struct Outcome {
    http: StatusCode,
    body: Bytes,
    /// The message that the handler has got.
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
    /// Whether it is an error of the caller's.
    fn is_refusal(&self) -> bool {
        self.http == StatusCode::BAD_REQUEST
            && value(&self.body).get("code").and_then(Value::as_str) == Some("invalid_argument")
    }
}

/// The descriptors, with a service that has a procedure for each message.
fn pool() -> &'static DescriptorPool {
    static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
        let mut pool = schema::pool().clone();
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
