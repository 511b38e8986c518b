//! Unary gRPC responses: of handlers, of rejections, and replayed.

use std::{convert::Infallible, mem, pin::pin, time::Duration};

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderName, HeaderValue, Response, header, response::Parts};
use http_body::Frame as BodyFrame;
use http_body_util::{BodyExt as _, StreamBody};
use tonic::{Code, Status, body::Body};
use tonic_idempotency_wire::ErrorOutcome;

use super::{
    WireError,
    body_buffer::BodyBuffer,
    compression::{CompressionEncoding as Encoding, DecompressError, GRPC_ENCODING, decompress},
    frame::{Frame, HEADER_LEN},
    headers,
    metadata::{HeadersAndTrailers, Metadata, MetadataFilter},
    stored_error::{self, Encoded, RestoredError},
};

const EXPIRES: HeaderName = HeaderName::from_static(headers::EXPIRES);
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
/// The header that tells a client's library when to try again, in milliseconds; negative for never.
pub(crate) const GRPC_RETRY_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");
const OUTCOME: HeaderName = HeaderName::from_static(headers::OUTCOME);
const REPLAYED: HeaderName = HeaderName::from_static(headers::REPLAYED);
const STATUS: HeaderName = HeaderName::from_static(headers::STATUS);

/// A unary response, read completely.
#[derive(Clone, Debug)]
pub(crate) struct UnaryResponse {
    parts: Parts,
    body: Bytes,
    trailers: HeaderMap,
    /// Whether the response was restored from a record.
    replayed: bool,
}

/// A response restored from a record.
#[derive(Debug)]
pub(crate) struct Replayed {
    pub(crate) response: UnaryResponse,
    /// Whether the stored metadata could not be decoded, and is missing.
    pub(crate) metadata_lost: bool,
    /// The `traceparent` of the first call; empty for none.
    pub(crate) traceparent: String,
}

impl UnaryResponse {
    /// Reads the response of a handler.
    pub(crate) async fn read<B>(response: Response<B>) -> Result<Self, Status>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<tonic::codegen::StdError>,
    {
        let (parts, body) = response.into_parts();
        let (mut body, mut data, mut trailers) = (pin!(body), BodyBuffer::default(), HeaderMap::new());
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| Status::from_error(error.into()))?;
            match frame.into_data() {
                Ok(chunk) => data.push(chunk),
                Err(frame) => trailers = frame.into_trailers().unwrap_or(trailers),
            }
        }
        Ok(Self { parts, body: data.into_bytes(), trailers, replayed: false })
    }

    /// Creates the response of a failed call.
    pub(crate) fn failed(status: Status) -> Self {
        let (parts, ()) = status.into_http().into_parts();
        Self { parts, body: Bytes::new(), trailers: HeaderMap::new(), replayed: false }
    }

    /// Restores the response with a stored message. If the stored metadata is invalid, the message is replayed without
    /// it.
    pub(crate) fn replay(
        message: &[u8],
        metadata: Option<&[u8]>,
        filter: &MetadataFilter,
        status: HeaderValue,
    ) -> Result<Replayed, WireError> {
        let mut metadata = metadata.map_or(Ok(Metadata::default()), Metadata::from_bytes);
        let traceparent = metadata.as_mut().map(|it| mem::take(&mut it.traceparent)).unwrap_or_default();
        let split = metadata.and_then(|metadata| metadata.into_headers_and_trailers(filter));
        let metadata_lost = split.is_err();
        let HeadersAndTrailers { headers, mut trailers } = split.unwrap_or_default();
        trailers.insert(GRPC_STATUS, HeaderValue::from_static("0"));
        let body = Frame::encode(message)?;
        let response = Self { parts: replayed_parts(headers), body, trailers, replayed: true }.with_status(status);
        Ok(Replayed { response, metadata_lost, traceparent })
    }

    /// Restores the response with a stored error.
    pub(crate) fn replay_error(stored: &[u8], filter: &MetadataFilter) -> Result<Replayed, WireError> {
        let RestoredError { status, headers, metadata_lost, traceparent } = stored_error::decode(stored, filter)?;
        let response = match headers {
            None => {
                let mut response = Self::failed(status);
                response.parts.headers.insert(REPLAYED, HeaderValue::from_static("true"));
                response
            }
            Some(headers) => {
                let mut trailers = HeaderMap::new();
                status.add_header(&mut trailers).map_err(|_| WireError::NoError)?;
                Self { parts: replayed_parts(headers), body: Bytes::new(), trailers, replayed: true }
            }
        };
        Ok(Replayed { response, metadata_lost, traceparent })
    }

    /// Returns the metadata of a successful response to store; `None` if there is none.
    pub(crate) fn to_stored_metadata(&self, filter: &MetadataFilter) -> Option<Bytes> {
        Metadata::of(&self.parts.headers, &self.trailers, filter).to_bytes()
    }

    /// Returns a failed response to store in at most `max` bytes, with the status that `redact` returns.
    pub(crate) fn to_stored_error(
        &self,
        filter: &MetadataFilter,
        max: usize,
        redact: impl FnOnce(&Status) -> Status,
    ) -> Encoded {
        let (headers, trailers) = match self.trailers.contains_key(GRPC_STATUS) {
            true => (Some(&self.parts.headers), &self.trailers),
            false => (None, &self.parts.headers),
        };
        stored_error::encode(&redact(&self.status()), headers, trailers, filter, max)
    }

    /// Returns the code of a failed response.
    pub(crate) fn code(&self) -> Code {
        self.status().code()
    }

    /// Returns the error that a tonic handler has answered with, with its sources.
    pub(crate) fn error(&self) -> Option<&Status> {
        self.parts.extensions.get()
    }

    /// Returns the status, from the trailers or, in a response without a body, from the headers.
    pub(crate) fn status(&self) -> Status {
        let status = Status::from_header_map(&self.trailers).or_else(|| Status::from_header_map(&self.parts.headers));
        status.unwrap_or_else(|| Status::unknown("the response has no grpc-status"))
    }

    /// Returns the headers and the trailers unchanged.
    #[cfg(feature = "connect")]
    pub(crate) fn into_metadata(self) -> (HeaderMap, HeaderMap) {
        (self.parts.headers, self.trailers)
    }

    /// Returns whether the handler succeeded: `grpc-status` is 0 in the trailers or, in a response without a body, in
    /// the headers.
    pub(crate) fn is_success(&self) -> bool {
        let status = self.trailers.get(GRPC_STATUS).or_else(|| self.parts.headers.get(GRPC_STATUS));
        status.is_some_and(|status| status == "0")
    }

    /// Returns the encoded response message. A compressed message is decompressed up to `limit` bytes.
    pub(crate) fn message(&self, limit: usize) -> Result<Bytes, WireError> {
        let frame = Frame::decode(self.body.clone())?;
        if !frame.compressed {
            return Ok(frame.message);
        }
        decompress(&self.parts.headers, &frame.message, limit).map_err(|error| match error {
            DecompressError::TooLarge => WireError::TooLarge,
            DecompressError::Wire(error) => error,
        })
    }

    /// Compresses a replay with the encoding that the caller accepts if its message has at least `from` bytes. The
    /// response of a handler is left to the handler's server.
    pub(crate) fn compressed(mut self, encoding: Option<Encoding>, from: usize) -> Self {
        if let (true, Some(encoding)) = (self.replayed, encoding)
            && let Some(body) = self.compressed_body(encoding, from)
        {
            self.body = body;
            self.parts.headers.insert(GRPC_ENCODING, encoding.header_value());
        }
        self
    }

    /// Returns the body with its message compressed; `None` if the message is too small or would not shrink.
    fn compressed_body(&self, encoding: Encoding, from: usize) -> Option<Bytes> {
        if self.body.len() < from.saturating_add(HEADER_LEN) {
            return None;
        }
        let frame = Frame::decode(self.body.clone()).ok()?;
        Frame::encode_compressed(&encoding.compress(&frame.message)?).ok()
    }

    pub(crate) fn with_status(mut self, status: HeaderValue) -> Self {
        self.parts.headers.insert(STATUS, status);
        self
    }

    /// Removes the outcome header that a handler has set: only the layer sets it.
    pub(crate) fn without_outcome(mut self) -> Self {
        self.parts.headers.remove(OUTCOME);
        self.trailers.remove(OUTCOME);
        self
    }

    /// Sets the outcome header, which says whether the key was kept or freed, if the response is an error.
    pub(crate) fn with_outcome(mut self, outcome: ErrorOutcome) -> Self {
        if !self.is_success() {
            self.parts.headers.insert(OUTCOME, outcome.header_value());
        }
        self
    }

    /// Adds the remaining lifetime of its record, in whole seconds.
    pub(crate) fn with_expiry(mut self, left: Duration) -> Self {
        if let Ok(seconds) = HeaderValue::try_from(left.as_secs().to_string()) {
            self.parts.headers.insert(EXPIRES, seconds);
        }
        self
    }

    /// Returns the HTTP response. Its body consists of frames, because tonic-web would end a sized body after its
    /// data, without the trailers.
    pub(crate) fn into_response(self) -> Response<Body> {
        let Self { parts, body, trailers, .. } = self;
        if body.is_empty() && trailers.is_empty() {
            // Trailers-Only: the status is in the headers. The HEADERS frame ends the stream only if the body declares
            // in advance that it is empty. grpc-go would treat an empty DATA frame after it as missing trailers.
            return Response::from_parts(parts, Body::empty());
        }
        let data = (!body.is_empty()).then(|| BodyFrame::data(body));
        let trailers = (!trailers.is_empty()).then(|| BodyFrame::trailers(trailers));
        let frames = data.into_iter().chain(trailers).map(Ok::<_, Infallible>);
        Response::from_parts(parts, Body::new(StreamBody::new(stream::iter(frames))))
    }
}

/// Returns the head of a replay.
fn replayed_parts(headers: HeaderMap) -> Parts {
    let mut parts = Response::new(()).into_parts().0;
    parts.headers = headers;
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    parts.headers.insert(REPLAYED, HeaderValue::from_static("true"));
    parts
}

#[cfg(test)]
mod tests {
    use http_body::Body as _;

    use super::*;

    /// Checks the end of the stream: grpc-go would treat a stream that continues after these headers as one
    /// without trailers.
    #[tokio::test]
    async fn ends_the_stream_of_a_failure_with_its_headers() {
        let response = UnaryResponse::failed(Status::aborted("in progress")).into_response();
        assert!(response.body().is_end_stream());

        // The same after the response was read, as a handler's failure is.
        let again = UnaryResponse::read(response).await.expect("a body without errors");
        assert!(!again.is_success());
        let again = again.into_response();
        assert!(again.body().is_end_stream());
        let status = Status::from_header_map(again.headers()).expect("a status");
        assert_eq!((status.code(), status.message()), (Code::Aborted, "in progress"));
    }

    #[tokio::test]
    async fn sends_a_replay_as_a_message_and_its_trailers() {
        let (filter, status) = (MetadataFilter::default(), HeaderValue::from_static("failed"));
        let replayed = UnaryResponse::replay(b"abc", None, &filter, status).expect("it fits");
        let response = replayed.response.into_response();
        assert!(!response.body().is_end_stream());
        assert_eq!(response.headers()["idempotency-status"], "failed");
        assert_eq!(response.headers()["idempotent-replayed"], "true");
        let again = UnaryResponse::read(response).await.expect("a body without errors");
        assert!(again.is_success());
        assert_eq!(again.message(0).as_deref(), Ok(b"abc".as_slice()));
    }
}
