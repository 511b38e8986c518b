//! Unary gRPC messages as bytes: framing, compression, metadata, requests and responses.

mod body_buffer;
mod compression;
mod frame;
pub(crate) mod headers;
mod metadata;
mod request;
mod response;
mod stored_error;

#[cfg(feature = "connect")]
pub(crate) use self::frame::{Frame, HEADER_LEN};
pub(crate) use self::{
    compression::{Encoding, GRPC_ACCEPT_ENCODING},
    frame::WireError,
    metadata::{MetadataFilter, is_never_replayed},
    request::{RequestError, UnaryRequest, buffer, drain_for, grpc_timeout, is_grpc},
    response::{Replayed, UnaryResponse},
};
