//! The protocols, as a client speaks them.

use base64::engine::general_purpose::STANDARD;
use bytes::{BufMut as _, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};
use prost_reflect::DescriptorPool;
use protobuf_canonical::json::Json;
use tonic::Status;
use tonic_types::pb;

use crate::http::{Answer, Call, Version};
use crate::prelude::*;

/// A protocol with its encoding of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Grpc,
    GrpcJson,
    GrpcWeb,
    GrpcWebText,
    Connect,
    ConnectJson,
}

/// The outcome of a call.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    protocol: Protocol,
    pub(crate) answer: Answer,
    /// The encoded response message, or the error.
    pub(crate) result: Result<Bytes, Status>,
}

/// The codes, with their names and HTTP statuses in Connect.
pub(crate) const CODES: [(Code, &str, u16); 16] = [
    (Code::Cancelled, "canceled", 499),
    (Code::Unknown, "unknown", 500),
    (Code::InvalidArgument, "invalid_argument", 400),
    (Code::DeadlineExceeded, "deadline_exceeded", 504),
    (Code::NotFound, "not_found", 404),
    (Code::AlreadyExists, "already_exists", 409),
    (Code::PermissionDenied, "permission_denied", 403),
    (Code::ResourceExhausted, "resource_exhausted", 429),
    (Code::FailedPrecondition, "failed_precondition", 400),
    (Code::Aborted, "aborted", 409),
    (Code::OutOfRange, "out_of_range", 400),
    (Code::Unimplemented, "unimplemented", 501),
    (Code::Internal, "internal", 500),
    (Code::Unavailable, "unavailable", 503),
    (Code::DataLoss, "data_loss", 500),
    (Code::Unauthenticated, "unauthenticated", 401),
];

impl Protocol {
    pub(crate) fn is_json(self) -> bool {
        matches!(self, Self::GrpcJson | Self::ConnectJson)
    }

    pub(crate) fn is_connect(self) -> bool {
        matches!(self, Self::Connect | Self::ConnectJson)
    }

    /// An empty message.
    pub(crate) fn empty(self) -> &'static [u8] {
        if self.is_json() { b"{}" } else { b"" }
    }

    /// An item with a script for its handler.
    pub(crate) fn script(self, script: &str) -> Vec<u8> {
        if self.is_json() { format!(r#"{{"script": "{script}"}}"#).into_bytes() } else { text(1, script) }
    }

    /// A call of a procedure with this encoded message.
    pub(crate) fn call(self, procedure: &str, message: impl AsRef<[u8]>) -> Call {
        let message = message.as_ref();
        let (version, content_type) = match self {
            Self::Grpc => (Version::Two, "application/grpc"),
            Self::GrpcJson => (Version::Two, "application/grpc+json"),
            Self::GrpcWeb => (Version::One, "application/grpc-web+proto"),
            Self::GrpcWebText => (Version::One, "application/grpc-web-text"),
            Self::Connect => (Version::One, "application/proto"),
            Self::ConnectJson => (Version::Two, "application/json"),
        };
        let body = match self {
            Self::Connect | Self::ConnectJson => Bytes::copy_from_slice(message),
            Self::Grpc | Self::GrpcJson | Self::GrpcWeb => framed(message),
            Self::GrpcWebText => STANDARD.encode(framed(message)).into(),
        };
        let call = Call { version, method: Method::POST, path: path(procedure), headers: Vec::new(), body };
        let call = call.header("content-type", content_type);
        match self {
            Self::Grpc | Self::GrpcJson => call.header("te", "trailers"),
            Self::GrpcWeb => call,
            Self::GrpcWebText => call.header("accept", "application/grpc-web-text"),
            Self::Connect | Self::ConnectJson => call.header("connect-protocol-version", "1"),
        }
    }

    /// Reads an answer as a client of this protocol does.
    pub(crate) fn read(self, answer: Answer) -> Outcome {
        let protocol = self;
        let result = match self {
            Self::Connect | Self::ConnectJson => connect(&answer),
            Self::Grpc | Self::GrpcJson => grpc(&answer),
            Self::GrpcWeb => grpc_web(&answer, answer.body.clone()),
            Self::GrpcWebText => grpc_web(&answer, from_text(&answer.body)),
        };
        Outcome { protocol, answer, result }
    }
}

impl Outcome {
    pub(crate) fn message(&self) -> &Bytes {
        self.result.as_ref().unwrap_or_else(|error| panic!("{error:?}: {:?}", self.answer))
    }

    /// The response, whatever its encoding.
    pub(crate) fn created(&self) -> Created {
        let pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET).expect("descriptors");
        let descriptor = pool.get_message_by_name("catalog.v1.Created").expect("the message");
        let message = match self.protocol.is_json() {
            true => Json::new(false).decode(&descriptor, self.message()).expect("JSON"),
            false => self.message().clone(),
        };
        Created::decode(message).expect("a response")
    }

    pub(crate) fn error(&self) -> &Status {
        self.result.as_ref().expect_err("an error")
    }

    /// Whether the answer is a replay. The mark is in the headers, wherever the status is.
    pub(crate) fn is_replay(&self) -> bool {
        self.answer.header("idempotent-replayed") == Some("true")
    }
}

/// The path of a procedure of the catalog.
pub(crate) fn path(procedure: &str) -> String {
    format!("/catalog.v1.Catalog/{procedure}")
}

/// A message in its gRPC frame.
pub(crate) fn framed(message: &[u8]) -> Bytes {
    let mut body = BytesMut::new();
    body.put_u8(0);
    body.put_u32(message.len().try_into().expect("a small message"));
    body.put_slice(message);
    body.freeze()
}

fn grpc(answer: &Answer) -> Result<Bytes, Status> {
    assert_eq!(answer.status, 200, "{answer:?}");
    let headers = if answer.trailers.contains_key("grpc-status") { &answer.trailers } else { &answer.headers };
    finish(headers, frames(answer.body.clone()).into_iter().next().map(|(_, message)| message))
}

fn grpc_web(answer: &Answer, body: Bytes) -> Result<Bytes, Status> {
    assert_eq!(answer.status, 200, "{answer:?}");
    let (mut message, mut headers) = (None, answer.headers.clone());
    for (flags, frame) in frames(body) {
        match flags {
            0x80 => {
                let lines = std::str::from_utf8(&frame).expect("text").split("\r\n").filter(|line| !line.is_empty());
                for line in lines {
                    let (name, value) = line.split_once(':').expect("a trailer");
                    let name: HeaderName = name.parse().expect("a name");
                    headers.append(name, HeaderValue::from_str(value.trim_start()).expect("a value"));
                }
            }
            _ => message = Some(frame),
        }
    }
    finish(&headers, message)
}

fn finish(headers: &HeaderMap, message: Option<Bytes>) -> Result<Bytes, Status> {
    let status = Status::from_header_map(headers).unwrap_or_else(|| panic!("no status: {headers:?}"));
    match status.code() {
        Code::Ok => Ok(message.expect("a message")),
        _ => Err(status),
    }
}

fn frames(mut body: Bytes) -> Vec<(u8, Bytes)> {
    let mut frames = Vec::new();
    while !body.is_empty() {
        let length = u32::from_be_bytes(body[1..5].try_into().expect("four bytes")) as usize;
        let flags = body[0];
        let rest = body.split_off(5 + length);
        frames.push((flags, body.split_off(5)));
        body = rest;
    }
    frames
}

/// tonic-web encodes each piece by itself, so there is padding in the middle.
fn from_text(body: &[u8]) -> Bytes {
    let mut bytes = Vec::new();
    for quantum in body.chunks(4) {
        bytes.extend(STANDARD.decode(quantum).expect("base64"));
    }
    bytes.into()
}

/// Errors are JSON, whatever the encoding of messages is.
fn connect(answer: &Answer) -> Result<Bytes, Status> {
    if answer.status == 200 {
        return Ok(answer.body.clone());
    }
    assert_eq!(answer.header("content-type"), Some("application/json"), "{answer:?}");
    let error: Value = serde_json::from_slice(&answer.body).expect("JSON");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let name = text(&error["code"]);
    let (code, _, http) = CODES.into_iter().find(|(_, known, _)| *known == name).expect("a code");
    assert!(answer.status == http || [404, 405, 415].contains(&answer.status), "{answer:?}");
    let details = error["details"].as_array().cloned().unwrap_or_default();
    let details = details.iter().map(|detail| prost_types::Any {
        type_url: format!("type.googleapis.com/{}", text(&detail["type"])),
        value: base64::engine::general_purpose::STANDARD_NO_PAD.decode(text(&detail["value"])).expect("base64"),
    });
    let message = text(&error["message"]);
    let status = pb::Status { code: code.into(), message: message.clone(), details: details.collect() };
    Err(Status::with_details(code, message, status.encode_to_vec().into()))
}
