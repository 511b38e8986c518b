//! Unary gRPC messages as bytes: framing, compression, metadata, requests and responses.

mod body_buffer;
mod compression;
mod frame;
pub(crate) use tonic_idempotency_wire::headers;
mod metadata;
mod request;
mod request_limits;
mod response;
mod stored_error;
mod written_message;

pub use self::compression::CompressionEncoding;
#[cfg(feature = "seal")]
pub(crate) use self::stored_error::with_envelope as error_with_envelope;
#[cfg(feature = "connect")]
pub(crate) use self::{
    compression::max_inflated,
    frame::{Frame, HEADER_LEN},
};
pub(crate) use self::{
    compression::{AcceptedEncodings, CompressionEncoding as Encoding, GRPC_ACCEPT_ENCODING, MAX_RATIO},
    frame::WireError,
    metadata::{MetadataFilter, Provenance, encode_codec, encode_traceparent, is_never_replayed},
    request::{RequestError, UnaryRequest, WholeBody, buffer, drain_for, is_grpc, lower_case_content_type},
    request_limits::RequestLimits,
    response::{GRPC_RETRY_PUSHBACK, Replayed, UnaryResponse},
    stored_error::{
        Encoded, decode_opaque as decode_opaque_error, encode_opaque as encode_opaque_error,
        envelope as envelope_of_error, with_metadata, without_content as error_without_content,
    },
    written_message::WrittenMessage,
};
