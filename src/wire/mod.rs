//! Unary gRPC as bytes: framing, compression, and responses taken apart and put together.

mod compression;
mod frame;
mod request;
mod response;

pub(crate) use self::{
    frame::WireError,
    request::{RequestError, UnaryRequest, is_grpc},
    response::UnaryResponse,
};
