//! A response as it is sealed.

use bytes::Bytes;
use prost::{DecodeError, Message};

use crate::store::StoredMessage;

/// A response message and its metadata, as one text.
#[derive(Clone, PartialEq, Message)]
struct Content {
    #[prost(bytes = "bytes", tag = "1")]
    message: Bytes,
    #[prost(bytes = "bytes", optional, tag = "2")]
    metadata: Option<Bytes>,
}

pub(crate) fn encode(response: &StoredMessage) -> Vec<u8> {
    let StoredMessage { message, metadata } = response.clone();
    Content { message, metadata }.encode_to_vec()
}

pub(crate) fn decode(text: Bytes) -> Result<StoredMessage, DecodeError> {
    let Content { message, metadata } = Content::decode(text)?;
    Ok(StoredMessage { message, metadata })
}
