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
    /// The `traceparent` of the call; empty for none.
    #[prost(string, tag = "6")]
    traceparent: String,
    /// All of the error, in an envelope; empty for an error in the open. The other fields but the code are not set then.
    #[prost(bytes = "bytes", tag = "7")]
    envelope: Bytes,
}

/// An encoded error.
pub(crate) struct Encoded {
    pub(crate) error: Bytes,
    /// Whether it was too large, and details, metadata and the end of its message are missing.
    pub(crate) is_cut: bool,
}

/// Encodes an error with its code, message, details and metadata, in at most `max` bytes. If it does not fit, it loses
/// its details and its metadata, and then the end of its message. The code is never lost, as it makes the error final.
/// `headers` are the headers before the status, if there were any.
pub(super) fn encode(
    status: &Status,
    headers: Option<&HeaderMap>,
    trailers: &HeaderMap,
    filter: &MetadataFilter,
    max: usize,
) -> Encoded {
    let mut stored = StoredError {
        code: status.code().into(),
        message: status.message().to_owned(),
        details: Bytes::copy_from_slice(status.details()),
        metadata: Some(Metadata::of(headers.unwrap_or(&HeaderMap::new()), trailers, filter)),
        has_headers: headers.is_some(),
        ..StoredError::default()
    };
    let is_cut = stored.encoded_len() > max;
    if is_cut {
        (stored.details, stored.metadata) = (Bytes::new(), None);
        let excess = stored.encoded_len().saturating_sub(max);
        let left = stored.message.len().saturating_sub(excess);
        let end = (0..=left.min(stored.message.len())).rev().find(|&end| stored.message.is_char_boundary(end));
        stored.message.truncate(end.unwrap_or(0));
    }
    Encoded { error: stored.encode_to_vec().into(), is_cut }
}

/// Encodes an error of which the layer knows nothing; `None` for one that is too large to store.
pub(crate) fn encode_opaque(error: Option<Vec<u8>>) -> Bytes {
    let message = if error.is_some() { String::new() } else { "it was too large to store".to_owned() };
    let details = error.unwrap_or_default().into();
    StoredError { code: Code::Unknown.into(), message, details, ..StoredError::default() }.encode_to_vec().into()
}

/// Returns the error that [`encode_opaque`] has encoded, or says why there is none.
pub(crate) fn decode_opaque(stored: &[u8]) -> Result<Result<Bytes, String>, WireError> {
    let StoredError { message, details, .. } = StoredError::decode(stored).map_err(|_| WireError::NoError)?;
    Ok(if message.is_empty() { Ok(details) } else { Err(message) })
}

/// Puts an encoded error into an envelope. Its code stays in the open.
#[cfg(feature = "seal")]
pub(crate) fn with_envelope(error: &[u8], envelope: Bytes) -> Bytes {
    StoredError { code: code(error), envelope, ..StoredError::default() }.encode_to_vec().into()
}

/// Returns the envelope that an encoded error is in; `None` for an error in the open.
pub(crate) fn envelope(error: &[u8]) -> Option<Bytes> {
    StoredError::decode(error).ok().map(|stored| stored.envelope).filter(|envelope| !envelope.is_empty())
}

/// Replaces all of an encoded error but its code by this message, which is not empty.
pub(crate) fn without_content(error: &[u8], message: &str) -> Bytes {
    StoredError { code: code(error), message: message.to_owned(), ..StoredError::default() }.encode_to_vec().into()
}

fn code(error: &[u8]) -> i32 {
    StoredError::decode(error).map_or(Code::Unknown.into(), |stored| stored.code)
}

/// Adds the encoded metadata of the call to an encoded error: its `traceparent`.
pub(crate) fn with_metadata(error: Bytes, metadata: Option<&Bytes>) -> Bytes {
    let Some(Metadata { traceparent, .. }) = metadata.and_then(|it| Metadata::from_bytes(it).ok()) else {
        return error;
    };
    let mut encoded = Vec::from(error);
    // The encodings of two messages after one another are the encoding of both merged.
    encoded.extend(StoredError { traceparent, ..StoredError::default() }.encode_to_vec());
    encoded.into()
}

/// An error restored from a record.
pub(super) struct RestoredError {
    /// The status with its metadata.
    pub(super) status: Status,
    /// The headers before the status; `None` if the status came in the headers.
    pub(super) headers: Option<HeaderMap>,
    /// The stored metadata could not be decoded and is missing.
    pub(super) metadata_lost: bool,
    /// The `traceparent` of the call; empty for none.
    pub(super) traceparent: String,
}

/// Decodes an error. If its stored metadata is invalid, the error is restored without it.
pub(super) fn decode(stored: &[u8], filter: &MetadataFilter) -> Result<RestoredError, WireError> {
    let StoredError { code, message, details, metadata, has_headers, traceparent, .. } =
        StoredError::decode(stored).map_err(|_| WireError::NoError)?;
    let code = Code::from_i32(code);
    if code == Code::Ok {
        return Err(WireError::NoError);
    }
    let split = metadata.unwrap_or_default().into_headers_and_trailers(filter);
    let metadata_lost = split.is_err();
    let HeadersAndTrailers { headers, trailers } = split.unwrap_or_default();
    let status = Status::with_details_and_metadata(code, message, details, MetadataMap::from_headers(trailers));
    Ok(RestoredError { status, headers: has_headers.then_some(headers), metadata_lost, traceparent })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_is_too_large_keeps_its_code_and_the_beginning_of_its_message() {
        let message = "\u{2713}".repeat(100);
        let status = Status::with_details(Code::NotFound, &message, Bytes::from(vec![7; 1000]));
        let none = HeaderMap::new();
        for (max, expected) in [(2000, 100), (1000, 100), (304, 99), (100, 31), (4, 0), (0, 0)] {
            let filter = MetadataFilter::default();
            let Encoded { error, is_cut } = encode(&status, None, &none, &filter, max);
            assert_eq!(is_cut, max < 1300, "{max}");
            assert!(error.len() <= max.max(2), "{max}: {}", error.len());
            let RestoredError { status, .. } = decode(&error, &filter).expect("an error");
            assert_eq!((status.code(), status.message().chars().count()), (Code::NotFound, expected), "{max}");
            assert_eq!(status.details().is_empty(), is_cut, "{max}");
        }
    }
}
