//! Requests to the server's `OperationService`.

use bytes::{BufMut as _, Bytes, BytesMut};
use http::Request;
use http_body_util::Full;
use prost::Message;
use tonic::body::Body;

use crate::{head::Head, request_body::HEAD};

const SERVICE: &str = "idempotency.v1.OperationService";

/// Makes a request to a procedure of the service: of the same caller as the call with this head, to the same server.
pub(crate) fn request(head: &Head, method: &'static str, message: &impl Message) -> Request<Body> {
    head.for_procedure(SERVICE, method).request(Body::new(Full::new(framed(message))))
}

fn framed(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut framed = BytesMut::with_capacity(HEAD + length);
    framed.put_u8(0);
    framed.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    framed.put_slice(&message.encode_to_vec());
    framed.freeze()
}
