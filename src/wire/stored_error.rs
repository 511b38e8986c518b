//! An error as it is kept in the record: neutral, so that it can be replayed over any protocol.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use prost::Message;
use tonic::{Code, Status, metadata::MetadataMap};

use crate::IdempotencyStatus;

/// Metadata that is not kept: of the connection, or for the first caller alone.
const LEFT_OUT: [HeaderName; 12] = [
    header::AUTHORIZATION,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::DATE,
    header::PROXY_AUTHORIZATION,
    header::SERVER,
    header::SET_COOKIE,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    HeaderName::from_static(IdempotencyStatus::HEADER),
];

#[derive(Clone, PartialEq, Message)]
struct StoredError {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    /// `grpc-status-details-bin`, decoded.
    #[prost(bytes = "bytes", tag = "3")]
    details: Bytes,
    #[prost(message, repeated, tag = "4")]
    metadata: Vec<Metadata>,
}

#[derive(Clone, PartialEq, Message)]
struct Metadata {
    #[prost(string, tag = "1")]
    name: String,
    /// As it is in the header.
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
}

/// What is kept of an error: its code, message, details, and metadata.
pub(super) fn encode(status: &Status) -> Bytes {
    let headers = status.metadata().clone().into_headers();
    let kept = headers.iter().filter(|(name, _)| !LEFT_OUT.contains(name) && !name.as_str().starts_with("grpc-"));
    let metadata = kept.map(|(name, value)| Metadata {
        name: name.as_str().to_owned(),
        value: Bytes::copy_from_slice(value.as_bytes()),
    });
    let stored = StoredError {
        code: status.code().into(),
        message: status.message().to_owned(),
        details: Bytes::copy_from_slice(status.details()),
        metadata: metadata.collect(),
    };
    stored.encode_to_vec().into()
}

/// The error again; `None` where these bytes are none.
pub(super) fn decode(stored: &[u8]) -> Option<Status> {
    let StoredError { code, message, details, metadata } = StoredError::decode(stored).ok()?;
    let code = Code::from_i32(code);
    if code == Code::Ok {
        return None;
    }
    let headers: Option<HeaderMap> = metadata
        .into_iter()
        .map(|Metadata { name, value }| {
            Some((name.parse::<HeaderName>().ok()?, HeaderValue::from_maybe_shared(value).ok()?))
        })
        .collect();
    Some(Status::with_details_and_metadata(code, message, details, MetadataMap::from_headers(headers?)))
}
