//! An error as it is kept in the record: neutral, so that it can be replayed over any protocol.

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
    /// Headers went before the status. Else it was all that there was, and its metadata is in the trailers.
    #[prost(bool, tag = "5")]
    has_headers: bool,
}

/// What is kept of an error: its code, message, details, and metadata. The headers are those that went before it.
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

/// An error again.
pub(super) struct Restored {
    /// With the metadata that goes along with it.
    pub(super) status: Status,
    /// What went before it.
    pub(super) headers: Option<HeaderMap>,
    /// Its metadata cannot be read, and is missing.
    pub(super) metadata_lost: bool,
}

/// The error again; its code, message and details count for more than its metadata.
pub(super) fn decode(stored: &[u8], filter: &MetadataFilter) -> Result<Restored, WireError> {
    let StoredError { code, message, details, metadata, has_headers } =
        StoredError::decode(stored).map_err(|_| WireError::NoError)?;
    let code = Code::from_i32(code);
    if code == Code::Ok {
        return Err(WireError::NoError);
    }
    let places = metadata.unwrap_or_default().into_headers_and_trailers(filter);
    let metadata_lost = places.is_err();
    let HeadersAndTrailers { headers, trailers } = places.unwrap_or_default();
    let status = Status::with_details_and_metadata(code, message, details, MetadataMap::from_headers(trailers));
    Ok(Restored { status, headers: has_headers.then_some(headers), metadata_lost })
}
