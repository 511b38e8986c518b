use bytes::Bytes;
use connectrpc::{ConnectError, EncodedBody, Response};
use http::{HeaderMap, HeaderName, StatusCode, header};
use tonic::{Code, Status, codegen::StdError};

use super::error::Errors;
use crate::grpc::UnaryResponse;

/// Headers of gRPC, and of a body that is not this one.
const LEFT_OUT: [HeaderName; 7] = [
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    HeaderName::from_static("grpc-accept-encoding"),
    HeaderName::from_static("grpc-encoding"),
    HeaderName::from_static("grpc-message"),
    HeaderName::from_static("grpc-status"),
    HeaderName::from_static("grpc-status-details-bin"),
];

/// The message and the metadata of a gRPC response, or its status as an error.
pub(super) async fn connect<B>(
    response: http::Response<B>,
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
        http => Err(Status::new(code(http), format!("the server answered {http}"))),
    };
    let (mut headers, mut trailers) = response.into_metadata();
    for metadata in [&mut headers, &mut trailers] {
        leave_out(metadata);
    }
    match outcome {
        Err(status) => Err(errors.connect(status).with_headers(headers).with_trailers(trailers)),
        Ok(Err(error)) => Err(ConnectError::internal(format!("the response cannot be read: {error}"))),
        Ok(Ok(message)) => {
            let mut response = Response::new(EncodedBody::from(message));
            (response.headers, response.trailers) = (headers, trailers);
            Ok(response)
        }
    }
}

/// What an answer means that did not come from a gRPC server, but from something in front of it; as gRPC's own clients take it.
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

fn leave_out(metadata: &mut HeaderMap) {
    for name in &LEFT_OUT {
        metadata.remove(name);
    }
}
