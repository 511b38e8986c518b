//! Calls at the level of HTTP: headers, body and trailers.

use http::Request;
use http_body_util::{BodyExt as _, Full};
use tower::ServiceExt as _;

use crate::prelude::*;

/// A response as it is on the wire.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) trailers: HeaderMap,
}

impl Answer {
    /// The status, from the trailers or from the headers.
    pub(crate) fn status(&self) -> Status {
        let status = Status::from_header_map(&self.trailers).or_else(|| Status::from_header_map(&self.headers));
        status.expect("a status")
    }
}

/// A request of the shop's user with the shop's key. `headers` replace default headers of the same name.
pub(crate) fn request(shop: &Shop, path: &str, headers: &[(&'static str, &str)], body: Body) -> Request<Body> {
    let mut request = Request::post(path).body(body).expect("a request");
    let ids = [("user", shop.user), ("idempotency-key", shop.key)];
    let ids = ids.map(|(name, id)| (name, id.map(|id| id.to_string())));
    let ids = ids.iter().filter_map(|(name, id)| Some((*name, id.as_deref()?)));
    for (name, value) in [("content-type", "application/grpc"), ("te", "trailers")].into_iter().chain(ids) {
        request.headers_mut().insert(name, value.parse().expect("a header"));
    }
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().expect("a header"));
    }
    request
}

/// Sends a body, and reads the response to its end.
pub(crate) async fn post(shop: &Shop, path: &str, headers: &[(&'static str, &str)], body: impl Into<Bytes>) -> Answer {
    let request = request(shop, path, headers, Body::new(Full::new(body.into())));
    send(shop, request).await.expect("an answer")
}

pub(crate) async fn send(shop: &Shop, request: Request<Body>) -> Result<Answer, Status> {
    let response = shop.channel.clone().oneshot(request).await.map_err(|error| Status::from_error(error.into()))?;
    let (parts, body) = response.into_parts();
    let collected = body.collect().await?;
    let trailers = collected.trailers().cloned().unwrap_or_default();
    Ok(Answer { headers: parts.headers, body: collected.to_bytes(), trailers })
}

/// A message in a frame with this flag.
pub(crate) fn frame(flag: u8, message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("a short message");
    [[flag].as_slice(), &length.to_be_bytes(), message].concat()
}
