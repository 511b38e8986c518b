//! Builds gRPC requests.

use std::time::{Duration, Instant};

use connectrpc::{ConnectError, RequestContext};
use http::{HeaderName, HeaderValue, Request, Version, header};
use http_body_util::Full;
use prost_reflect::MethodDescriptor;
use tonic::body::Body;

use crate::grpc::Frame;

/// Headers that are not forwarded: of the connection, of the protocols, and of the original body.
const NOT_FORWARDED: [HeaderName; 20] = [
    header::ACCEPT,
    header::ACCEPT_ENCODING,
    header::CONNECTION,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::EXPECT,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("connect-accept-encoding"),
    HeaderName::from_static("connect-content-encoding"),
    HeaderName::from_static("connect-protocol-version"),
    HeaderName::from_static("connect-timeout-ms"),
    HeaderName::from_static("grpc-accept-encoding"),
    HeaderName::from_static("grpc-encoding"),
    HeaderName::from_static("grpc-timeout"),
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("x-grpc-web"),
];

/// Builds the gRPC request of a call.
pub(super) fn grpc(
    method: &MethodDescriptor,
    mut context: RequestContext,
    message: &[u8],
) -> Result<Request<Body>, ConnectError> {
    let body = Frame::encode(message).map_err(|error| ConnectError::resource_exhausted(error.to_string()))?;
    let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
    let mut request = Request::post(path).version(Version::HTTP_2).body(Body::new(Full::new(body)))?;
    *request.extensions_mut() = std::mem::take(context.extensions_mut());
    let deadline = context.deadline();
    let headers = request.headers_mut();
    *headers = std::mem::take(context.headers_mut());
    for name in &NOT_FORWARDED {
        headers.remove(name);
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(header::TE, HeaderValue::from_static("trailers"));
    if let Some(deadline) = deadline {
        let left = deadline.saturating_duration_since(Instant::now());
        headers.insert("grpc-timeout", HeaderValue::try_from(timeout(left)).map_err(http::Error::from)?);
    }
    Ok(request)
}

/// Formats a timeout for `grpc-timeout`: at most eight digits and a unit.
fn timeout(left: Duration) -> String {
    match left.as_millis() {
        millis @ ..100_000_000 => format!("{millis}m"),
        _ => format!("{}S", left.as_secs().min(99_999_999)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_timeouts_with_at_most_eight_digits() {
        for (left, expected) in [
            (Duration::ZERO, "0m"),
            (Duration::from_micros(1500), "1m"),
            (Duration::from_millis(99_999_999), "99999999m"),
            (Duration::from_millis(100_000_000), "100000S"),
            (Duration::MAX, "99999999S"),
        ] {
            assert_eq!(timeout(left), expected);
        }
    }
}
