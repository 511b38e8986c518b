//! Unary gRPC requests.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Version, header, request::Parts};
use http_body_util::{BodyExt as _, Full};
use tonic::{Status, body::Body};

use super::{
    WireError,
    body_buffer::BodyBuffer,
    compression::{
        AcceptedEncodings, CompressionEncoding as Encoding, GRPC_ACCEPT_ENCODING, GRPC_ENCODING, InflateError,
        NotAccepted, inflate,
    },
    frame::{Frame, Header},
};

/// A body that was read completely. Clones share it.
pub(crate) type WholeBody = Full<Bytes>;

/// A unary request, read completely.
#[derive(Debug)]
pub(crate) struct UnaryRequest {
    parts: Parts,
    message: Bytes,
    /// The body as received if it was not compressed.
    body: Option<Bytes>,
}

impl UnaryRequest {
    /// Reads a request whose message has at most `limit` bytes, both compressed and decompressed.
    pub(crate) async fn read(
        request: Request<Body>,
        limit: usize,
        accepted: &AcceptedEncodings,
    ) -> Result<Self, RequestError> {
        let (parts, body) = receive(request, limit).await?;
        // Checked even if this message is not compressed, as a server without the layer does.
        let encoding = accepted.of(&parts.headers).map_err(|NotAccepted| RequestError::NotAccepted)?;
        let frame = Frame::decode(body.clone())?;
        if !frame.compressed {
            return Ok(Self { parts, message: frame.message, body: Some(body) });
        }
        drop(body);
        match inflate(encoding.ok_or(WireError::NotCompressed)?, frame.message, limit).await {
            Ok(message) => Ok(Self { parts, message, body: None }),
            Err(InflateError::Interrupted(interrupted)) => {
                Err(RequestError::Body(Status::internal(interrupted.to_string())))
            }
            Err(InflateError::Ratio) => Err(RequestError::Ratio),
            Err(InflateError::TooLarge) => Err(RequestError::TooLarge { limit }),
            Err(InflateError::Wire(error)) => Err(error.into()),
        }
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.parts.headers
    }

    /// Returns the encoded request message.
    pub(crate) fn message(&self) -> &Bytes {
        &self.message
    }

    /// Returns the uncompressed request for the handler. It accepts only enabled encodings, so that the layer can
    /// decompress the response and store it uncompressed.
    pub(crate) fn into_request(self) -> Result<Request<WholeBody>, WireError> {
        let mut request = self.into_unprotected()?;
        let headers = request.headers_mut();
        if !Encoding::all_enabled(headers) {
            let accepted = Encoding::names(Encoding::accepted(headers));
            headers.remove(GRPC_ACCEPT_ENCODING);
            if let Some(accepted) = accepted {
                headers.insert(GRPC_ACCEPT_ENCODING, accepted);
            }
        }
        Ok(request)
    }

    /// Returns the uncompressed request for a handler whose response the layer does not read.
    pub(crate) fn into_unprotected(self) -> Result<Request<WholeBody>, WireError> {
        let Self { mut parts, message, body } = self;
        parts.headers.remove(GRPC_ENCODING);
        let body = match body {
            Some(body) => body,
            None => {
                parts.headers.remove(header::CONTENT_LENGTH);
                Frame::encode(&message)?
            }
        };
        Ok(Request::from_parts(parts, WholeBody::new(body)))
    }

    pub(crate) fn extensions_mut(&mut self) -> &mut http::Extensions {
        &mut self.parts.extensions
    }
}

/// Reads a request whose message has at most `limit` bytes, compressed or not. Returns it unchanged, but with its whole body.
pub(crate) async fn buffer(request: Request<Body>, limit: usize) -> Result<Request<WholeBody>, RequestError> {
    let (parts, body) = receive(request, limit).await?;
    Frame::decode(body.clone())?;
    Ok(Request::from_parts(parts, WholeBody::new(body)))
}

/// The reason why a request cannot be read.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// The body failed.
    Body(Status),
    /// Its encoding is not accepted.
    NotAccepted,
    /// Its message is too large in relation to its compressed form.
    Ratio,
    TooLarge {
        limit: usize,
    },
    Wire(WireError),
}

impl From<WireError> for RequestError {
    fn from(error: WireError) -> Self {
        Self::Wire(error)
    }
}

/// Returns whether the request is gRPC with protobuf messages, the only protocol that the layer reads.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).map(|value| value.as_bytes());
    let Some(rest) = content_type.and_then(|value| value.strip_prefix(b"application/grpc")) else {
        return false;
    };
    rest.is_empty() || rest.starts_with(b";") || rest == b"+proto" || rest.starts_with(b"+proto;")
}

/// Writes the media type of the request in lower case: media types have no case (RFC 9110, section 8.3.1). Parameters stay as they are.
pub(crate) fn lower_case_content_type(headers: &mut HeaderMap) {
    let Some(value) = headers.get_mut(header::CONTENT_TYPE) else { return };
    let end = value.as_bytes().iter().position(|byte| *byte == b';').unwrap_or(value.len());
    if value.as_bytes()[..end].iter().any(u8::is_ascii_uppercase) {
        let mut lower = value.as_bytes().to_vec();
        lower[..end].make_ascii_lowercase();
        *value = HeaderValue::from_bytes(&lower).unwrap_or_else(|_| value.clone());
    }
}

/// Reads and discards the body of a refused call over HTTP/1, until its end or until it has more than `limit` bytes.
/// Otherwise the connection is closed, and a client that is still writing may never read the response.
pub(crate) async fn drain_for(version: Version, mut body: Body, limit: usize) {
    if version >= Version::HTTP_2 {
        return;
    }
    let mut read = 0_usize;
    while let Some(Ok(frame)) = body.frame().await {
        read = read.saturating_add(frame.data_ref().map_or(0, Bytes::len));
        if read > limit {
            return;
        }
    }
}

/// Receives the head and the whole body of a request whose message has at most `limit` bytes.
async fn receive(request: Request<Body>, limit: usize) -> Result<(Parts, Bytes), RequestError> {
    let (parts, mut body) = request.into_parts();
    match collect(&mut body, limit).await? {
        ReceivedBody::Message(body) => Ok((parts, body)),
        ReceivedBody::Refused(error) => {
            drain_for(parts.version, body, limit).await;
            Err(error)
        }
    }
}

/// A body, as far as it was read.
enum ReceivedBody {
    /// The whole body. It may have less than a message.
    Message(Bytes),
    /// The start of a body that is not one message of at most the limit.
    Refused(RequestError),
}

/// Collects a body with one message of at most `limit` bytes. Stops early in any other body, as soon as that is
/// certain.
async fn collect(body: &mut Body, limit: usize) -> Result<ReceivedBody, RequestError> {
    let mut buffer = BodyBuffer::default();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(RequestError::Body)?.into_data() else { continue };
        buffer.push(data);
        let received = buffer.as_slice();
        let header = match Header::of(received) {
            Ok(Some(header)) => header,
            Ok(None) => continue,
            Err(error) => return Ok(ReceivedBody::Refused(error.into())),
        };
        if header.length > limit {
            return Ok(ReceivedBody::Refused(RequestError::TooLarge { limit }));
        }
        if header.is_followed(received.len()) {
            // Decoding finds the first error of such a body.
            let error = Frame::decode(buffer.into_bytes()).err().unwrap_or(WireError::SecondMessage);
            return Ok(ReceivedBody::Refused(error.into()));
        }
    }
    Ok(ReceivedBody::Message(buffer.into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_grpc_from_other_protocols() {
        for (content_type, expected) in [
            ("application/grpc", true),
            ("application/grpc+proto", true),
            ("application/grpc;charset=utf-8", true),
            ("application/grpc+json", false),
            ("application/grpc-web", false),
            ("application/grpc-web+proto", false),
            ("application/json", false),
        ] {
            let headers = [(header::CONTENT_TYPE, content_type.parse().expect("a value"))].into_iter().collect();
            assert_eq!(is_grpc(&headers), expected, "{content_type}");
        }
        assert!(!is_grpc(&HeaderMap::new()));
    }

    #[test]
    fn media_types_have_no_case_and_their_parameters_do() {
        for (content_type, expected) in [
            ("Application/gRPC", "application/grpc"),
            ("APPLICATION/GRPC-WEB+PROTO", "application/grpc-web+proto"),
            ("Multipart/Form-Data; boundary=AbC", "multipart/form-data; boundary=AbC"),
            ("text/plain; charset=UTF-8", "text/plain; charset=UTF-8"),
            ("", ""),
        ] {
            let mut headers = [(header::CONTENT_TYPE, content_type.parse().expect("a value"))].into_iter().collect();
            lower_case_content_type(&mut headers);
            assert_eq!(headers[header::CONTENT_TYPE], expected, "{content_type}");
        }
    }
}
