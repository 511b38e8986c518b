//! The message of a translated call, as its client wrote it.

use bytes::Bytes;

/// The message of a call that was translated from JSON. An extension of the translated request, for the request hash:
/// servers with different versions of a schema agree on the JSON, and may not agree on what they make of it.
#[derive(Clone)]
pub(crate) struct WrittenMessage {
    /// The JSON, decompressed.
    pub(crate) json: Bytes,
    /// The message that it was translated into.
    pub(crate) message: Bytes,
}
