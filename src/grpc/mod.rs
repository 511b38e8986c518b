//! Unary gRPC as bytes: framing, compression, and responses taken apart and put together.

mod compression;
mod frame;
mod metadata;
mod pieces;
mod request;
mod response;
mod stored_error;

#[cfg(feature = "connect")]
pub(crate) use self::frame::Frame;
pub(crate) use self::{
    compression::{Encoding, GRPC_ACCEPT_ENCODING},
    frame::WireError,
    metadata::{Kept, is_never_kept},
    request::{RequestError, UnaryRequest, drain, grpc_timeout, is_grpc},
    response::{Replayed, UnaryResponse},
};
