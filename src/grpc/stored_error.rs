//! Errors as they are stored in the record, independent of the protocol.

use bytes::Bytes;
use http::HeaderMap;
use prost::Message;
use tonic::{Code, Status, metadata::MetadataMap};

use super::{
    WireError,
    metadata::{HeadersAndTrailers, Metadata, MetadataFilter},
};

#[derive(Clone, PartialEq, Message)]
struct StoredError {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    /// `grpc-status-details-bin`, decoded.
    #[prost(bytes = "bytes", tag = "3")]
    details: Bytes,
    #[prost(message, optional, tag = "4")]
    metadata: Option<Metadata>,
    /// Whether the response had headers before its status. If not, the status came in the headers, and their metadata
    /// is stored as trailers.
    #[prost(bool, tag = "5")]
    has_headers: bool,
}

/// Encodes an error with its code, message, details and metadata. `headers` are the headers before the status, if there
/// were any.
pub(super) fn encode(
    status: &Status,
    headers: Option<&HeaderMap>,
    trailers: &HeaderMap,
    filter: &MetadataFilter,
) -> Bytes {
    let stored = StoredError {
        code: status.code().into(),
        message: status.message().to_owned(),
        details: Bytes::copy_from_slice(status.details()),
        metadata: Some(Metadata::of(headers.unwrap_or(&HeaderMap::new()), trailers, filter)),
        has_headers: headers.is_some(),
    };
    stored.encode_to_vec().into()
}

/// An error restored from a record.
pub(super) struct Restored {
    /// The status with its metadata.
    pub(super) status: Status,
    /// The headers before the status; `None` if the status came in the headers.
    pub(super) headers: Option<HeaderMap>,
    /// The stored metadata could not be decoded and is missing.
    pub(super) metadata_lost: bool,
}

/// Decodes an error. If its stored metadata is invalid, the error is restored without it.
pub(super) fn decode(stored: &[u8], filter: &MetadataFilter) -> Result<Restored, WireError> {
    let StoredError { code, message, details, metadata, has_headers } =
        StoredError::decode(stored).map_err(|_| WireError::NoError)?;
    let code = Code::from_i32(code);
    if code == Code::Ok {
        return Err(WireError::NoError);
    }
    let split = metadata.unwrap_or_default().into_headers_and_trailers(filter);
    let metadata_lost = split.is_err();
    let HeadersAndTrailers { headers, trailers } = split.unwrap_or_default();
    let status = Status::with_details_and_metadata(code, message, details, MetadataMap::from_headers(trailers));
    Ok(Restored { status, headers: has_headers.then_some(headers), metadata_lost })
}
