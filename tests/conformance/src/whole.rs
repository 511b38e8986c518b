//! Requests of gRPC-Web over HTTP/1.1, read completely before tonic gets them.
//!
//! tonic answers some requests without reading them. The connection breaks, and with it whichever call of the
//! suite comes next. The rest of the suite would fail at random.

use http::{Request, Version, header};
use http_body_util::{BodyExt as _, Full};
use tonic::{body::Body, codegen::StdError};

pub(crate) async fn whole(request: Request<Body>) -> Result<Request<Body>, StdError> {
    let content_type = request.headers().get(header::CONTENT_TYPE).map_or(&[][..], |value| value.as_bytes());
    if request.version() >= Version::HTTP_2 || !content_type.starts_with(b"application/grpc-web") {
        return Ok(request);
    }
    let (parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    Ok(Request::from_parts(parts, Body::new(Full::new(body))))
}
