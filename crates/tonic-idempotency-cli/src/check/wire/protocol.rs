//! The protocols: how each encodes a call, and its answer.

use std::io::{Read as _, Write as _};

use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD, Engine as _};
use bytes::{BufMut as _, Bytes, BytesMut};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use prost::Message as _;
use prost_types::Any;
use serde::Deserialize;
use tonic::{Code, Status};

use super::answer::{Answer, Lost, Outcome, Whole};

/// The length of what stands before a message of gRPC: a flag, and the message's length.
const PREFIX: usize = 5;

/// The longest response that is decompressed, in bytes.
const LONGEST: u64 = 16 << 20;

/// The flag of a frame of gRPC-Web that has the trailers.
const TRAILERS: u8 = 0x80;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::check) enum Protocol {
    Grpc,
    GrpcWeb,
    Connect,
    ConnectJson,
}

impl Protocol {
    pub(in crate::check) fn name(self) -> &'static str {
        match self {
            Self::Grpc => "gRPC",
            Self::GrpcWeb => "gRPC-Web",
            Self::Connect => "Connect",
            Self::ConnectJson => "Connect with JSON",
        }
    }

    /// Adds the protocol's own headers.
    pub(in crate::check) fn describe(self, headers: &mut HeaderMap, is_compressed: bool) {
        let content = match self {
            Self::Grpc => "application/grpc",
            Self::GrpcWeb => "application/grpc-web+proto",
            Self::Connect => "application/proto",
            Self::ConnectJson => "application/json",
        };
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content));
        let more = match self {
            Self::Grpc => ("te", "trailers"),
            Self::GrpcWeb => ("x-grpc-web", "1"),
            Self::Connect | Self::ConnectJson => ("connect-protocol-version", "1"),
        };
        headers.insert(HeaderName::from_static(more.0), HeaderValue::from_static(more.1));
        if is_compressed {
            let name = if self.is_enveloped() { "grpc-encoding" } else { "content-encoding" };
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static("gzip"));
        }
    }

    /// Returns the body of a call, from its message.
    pub(in crate::check) fn body(self, message: &[u8], is_compressed: bool) -> Bytes {
        let message = if is_compressed { gzip(message) } else { message.to_vec() };
        if !self.is_enveloped() {
            return message.into();
        }
        let mut body = BytesMut::with_capacity(PREFIX + message.len());
        body.put_u8(is_compressed.into());
        body.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
        body.put_slice(&message);
        body.freeze()
    }

    fn is_enveloped(self) -> bool {
        matches!(self, Self::Grpc | Self::GrpcWeb)
    }

    /// Reads the answer to a call.
    pub(super) fn answer(self, response: Whole) -> Result<Answer, Lost> {
        match self {
            Self::Grpc => of_grpc(response),
            Self::GrpcWeb => of_grpc_web(response),
            Self::Connect | Self::ConnectJson => of_connect(response),
        }
    }
}

/// Returns the messages of a body of gRPC, each with its flag.
pub(super) fn frames(mut body: &[u8]) -> Result<Vec<(u8, Bytes)>, Lost> {
    let mut frames = Vec::new();
    while let Some((head, rest)) = body.split_at_checked(PREFIX) {
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let (message, rest) = rest.split_at_checked(length).ok_or_else(|| Lost::new("a message is cut off"))?;
        frames.push((head[0], Bytes::copy_from_slice(message)));
        body = rest;
    }
    if body.is_empty() { Ok(frames) } else { Err(Lost::new("a message is cut off")) }
}

fn of_grpc(response: Whole) -> Result<Answer, Lost> {
    let Whole { status, headers, body, trailers } = response;
    let ended = Status::from_header_map(&trailers).or_else(|| Status::from_header_map(&headers));
    let ended = ended.ok_or_else(|| Lost::new(format!("HTTP status {status}, without a grpc-status")))?;
    let outcome = outcome(ended, &frames(&body)?)?;
    Ok(Answer { outcome, headers, trailers })
}

fn of_grpc_web(response: Whole) -> Result<Answer, Lost> {
    let Whole { status, headers, body, .. } = response;
    // A server that knows only gRPC refuses it as that.
    let media = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !media.starts_with("application/grpc-web") {
        return Err(Lost::new(format!("HTTP status {status}, with the content type \"{}\"", media.escape_debug())));
    }
    let frames = frames(&body)?;
    let (last, messages): (Vec<_>, Vec<_>) = frames.into_iter().partition(|(flag, _)| flag & TRAILERS != 0);
    let mut trailers = HeaderMap::new();
    for line in last.iter().flat_map(|(_, text)| text.split(|byte| *byte == b'\n')) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let name = HeaderName::from_bytes(line[..colon].trim_ascii());
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            trailers.append(name, value);
        }
    }
    let ended = Status::from_header_map(&trailers).or_else(|| Status::from_header_map(&headers));
    let ended = ended.ok_or_else(|| Lost::new(format!("HTTP status {status}, without a grpc-status")))?;
    let outcome = outcome(ended, &messages)?;
    Ok(Answer { outcome, headers, trailers })
}

/// Reads a status, and the messages before it.
fn outcome(status: Status, messages: &[(u8, Bytes)]) -> Result<Outcome, Lost> {
    match (status.code(), messages) {
        (Code::Ok, [(0, message)]) => Ok(Outcome::Success(message.clone())),
        // Some servers compress as their caller does, also if it has asked for nothing.
        (Code::Ok, [(1, message)]) => Ok(Outcome::Success(gunzip(message)?)),
        (Code::Ok, other) => Err(Lost::new(format!("OK with {} messages", other.len()))),
        _ => Ok(Outcome::Error(status)),
    }
}

/// An error of Connect.
#[derive(Deserialize)]
struct ConnectError {
    code: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    details: Vec<Detail>,
}

#[derive(Deserialize)]
struct Detail {
    #[serde(rename = "type")]
    name: String,
    value: String,
}

fn of_connect(response: Whole) -> Result<Answer, Lost> {
    let Whole { status, headers, body, trailers: _ } = response;
    let body = if headers.contains_key(header::CONTENT_ENCODING) { gunzip(&body)? } else { body };
    let trailers = headers.iter().filter_map(|(name, value)| {
        let name = name.as_str().strip_prefix("trailer-")?;
        Some((HeaderName::from_bytes(name.as_bytes()).ok()?, value.clone()))
    });
    let trailers = trailers.collect();
    if status == StatusCode::OK {
        return Ok(Answer { outcome: Outcome::Success(body), headers, trailers });
    }
    let error: ConnectError = serde_json::from_slice(&body)
        .map_err(|_| Lost::new(format!("HTTP status {status}, without an error of Connect")))?;
    let details = error.details.into_iter().filter_map(|detail| {
        let value =
            BASE64_STANDARD_NO_PAD.decode(&detail.value).or_else(|_| BASE64_STANDARD.decode(&detail.value)).ok()?;
        Some(Any { type_url: format!("type.googleapis.com/{}", detail.name), value })
    });
    let code = code(&error.code);
    let details = tonic_types::Status { code: code.into(), message: error.message.clone(), details: details.collect() };
    let status = Status::with_details(code, error.message, details.encode_to_vec().into());
    Ok(Answer { outcome: Outcome::Error(status), headers, trailers })
}

/// The code with a name of Connect, such as `invalid_argument`.
fn code(name: &str) -> Code {
    // The library of gRPC spells it with two l.
    let name = if name == "canceled" { "cancelled" } else { name };
    let words = |code: &Code| {
        let camel = format!("{code:?}");
        let letters = camel.char_indices().flat_map(|(index, letter)| {
            let gap = (index > 0 && letter.is_ascii_uppercase()).then_some('_');
            gap.into_iter().chain([letter.to_ascii_lowercase()])
        });
        letters.collect::<String>()
    };
    (1..=16).map(Code::from_i32).find(|code| words(code) == name).unwrap_or(Code::Unknown)
}

fn gunzip(message: &[u8]) -> Result<Bytes, Lost> {
    let mut plain = Vec::new();
    let read = GzDecoder::new(message).take(LONGEST).read_to_end(&mut plain);
    read.map_err(|_| Lost::new("a compressed response, which is no gzip"))?;
    Ok(plain.into())
}

fn gzip(message: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // A vector takes all.
    let _ = encoder.write_all(message);
    encoder.finish().unwrap_or_default()
}
