//! Translates gRPC responses.

use bytes::Bytes;
use connectrpc::{ConnectError, EncodedBody, Protocol, Response};
use http::{HeaderMap, HeaderName, StatusCode, header};
use tonic::{Code, Status, codegen::StdError};

use super::error::Errors;
use crate::grpc::{GRPC_RETRY_PUSHBACK, UnaryResponse};

/// Headers that are not forwarded: of gRPC, and of the original body.
const NOT_FORWARDED: [HeaderName; 7] = [
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    HeaderName::from_static("grpc-accept-encoding"),
    HeaderName::from_static("grpc-encoding"),
    HeaderName::from_static("grpc-message"),
    HeaderName::from_static("grpc-status"),
    HeaderName::from_static("grpc-status-details-bin"),
];

/// Translates a gRPC response to a call in this protocol: returns its message and metadata, or its status as an error.
pub(super) async fn connect<B>(
    response: http::Response<B>,
    protocol: Option<Protocol>,
    errors: &Errors,
) -> Result<Response<EncodedBody>, ConnectError>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<StdError>,
{
    let http = response.status();
    let response = UnaryResponse::read(response).await.map_err(|status| errors.connect(status))?;
    let outcome = match http {
        StatusCode::OK if response.is_success() => Ok(response.message(usize::MAX)),
        StatusCode::OK => Err(response.status()),
        http => Err(Status::new(code(http), format!("unexpected HTTP status from the service: {http}"))),
    };
    let (mut headers, mut trailers) = response.into_metadata();
    for metadata in [&mut headers, &mut trailers] {
        remove_not_forwarded(metadata);
        // Connect libraries do not retry by themselves.
        if protocol == Some(Protocol::Connect) {
            metadata.remove(GRPC_RETRY_PUSHBACK);
        }
    }
    match outcome {
        Err(status) => Err(errors.connect(status).with_headers(headers).with_trailers(trailers)),
        Ok(Err(error)) => Err(ConnectError::internal(format!("malformed response: {error}"))),
        Ok(Ok(message)) => {
            let mut response = Response::new(EncodedBody::from(message));
            (response.headers, response.trailers) = (headers, trailers);
            Ok(response)
        }
    }
}

/// Maps the HTTP status of a response that is not gRPC, such as one of a proxy, as gRPC specifies for clients.
fn code(http: StatusCode) -> Code {
    match http {
        StatusCode::BAD_REQUEST => Code::Internal,
        StatusCode::UNAUTHORIZED => Code::Unauthenticated,
        StatusCode::FORBIDDEN => Code::PermissionDenied,
        StatusCode::NOT_FOUND => Code::Unimplemented,
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => Code::Unavailable,
        _ => Code::Unknown,
    }
}

fn remove_not_forwarded(metadata: &mut HeaderMap) {
    for name in &NOT_FORWARDED {
        metadata.remove(name);
    }
}
