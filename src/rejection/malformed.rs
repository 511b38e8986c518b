//! The reasons why the message of a request cannot be read.

use http::HeaderValue;
use protobuf_canonical::CanonicalError;
use thiserror::Error;
use tonic::Code;

use crate::grpc::WireError;

#[derive(Debug, Error)]
pub(crate) enum MalformedRequest {
    #[error("the grpc-encoding is not accepted with an idempotency key; accepted: {}", text(.accepted))]
    Compression {
        /// The accepted encodings.
        accepted: HeaderValue,
    },
    #[error(transparent)]
    Framing(WireError),
    #[error(transparent)]
    Message(CanonicalError),
    #[error("the content type is not gRPC with protobuf messages")]
    Protocol,
}

impl MalformedRequest {
    /// The code that gRPC specifies for a malformed request.
    pub(super) fn code(&self) -> Code {
        match self {
            Self::Compression { .. } | Self::Framing(WireError::NoMessage | WireError::SecondMessage) => {
                Code::Unimplemented
            }
            Self::Framing(_) | Self::Message(_) | Self::Protocol => Code::Internal,
        }
    }
}

fn text(value: &HeaderValue) -> &str {
    value.to_str().unwrap_or_default()
}

/// The reason for which a message that is not larger than the limit is rejected.
#[derive(Debug, Error)]
pub(crate) enum TooCostly {
    #[error(transparent)]
    Order(CanonicalError),
    #[error("is more than {} times as large as it is compressed", crate::grpc::MAX_RATIO)]
    Ratio,
}
