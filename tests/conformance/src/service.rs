//! The handlers, as the suite's proto describes them.

use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use http::{HeaderMap, HeaderName, HeaderValue};
use prost_types::Any;
use tokio::{
    sync::mpsc::{self, Sender},
    time::sleep,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;

use crate::{
    call::{Call, any},
    proto::{
        BidiStreamRequest, ConformancePayload, Error, Header, StreamResponseDefinition, UnaryResponseDefinition,
        unary_response_definition::Response,
    },
};

/// The answer of a handler with one response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) headers: HeaderMap,
    pub(crate) trailers: HeaderMap,
    pub(crate) outcome: Result<ConformancePayload, Failure>,
}

/// The answer of a handler with a stream of responses.
#[derive(Debug)]
pub(crate) struct Streamed<E> {
    pub(crate) headers: HeaderMap,
    pub(crate) trailers: HeaderMap,
    pub(crate) responses: ReceiverStream<Result<ConformancePayload, E>>,
}

/// The error that a call asks for.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) message: String,
    pub(crate) details: Vec<Any>,
}

/// Answers a call with one response, as its first request defines.
pub(crate) async fn unary(call: &Call, definition: Option<UnaryResponseDefinition>, requests: Vec<Any>) -> Answer {
    call.witness.start();
    let definition = definition.unwrap_or_default();
    let info = call.info(requests);
    let outcome = match definition.response {
        Some(Response::Error(error)) => Err(Failure::of(error, Some(any("ConformancePayload.RequestInfo", &info)))),
        Some(Response::ResponseData(data)) => Ok(ConformancePayload { data, request_info: Some(info) }),
        None => Ok(ConformancePayload { data: Vec::new(), request_info: Some(info) }),
    };
    delay(definition.response_delay_ms).await;
    call.witness.end(outcome.as_ref().map_or_else(|failure| failure.code, |_| Code::Ok));
    Answer { headers: map(&definition.response_headers), trailers: map(&definition.response_trailers), outcome }
}

/// Records a call that no handler answers.
pub(crate) fn unimplemented(call: &Call) -> Failure {
    call.witness.start();
    call.witness.end(Code::Unimplemented);
    Failure { code: Code::Unimplemented, message: "as the suite wants it".to_owned(), details: Vec::new() }
}

/// Answers a call that streams its responses.
pub(crate) fn server_stream<E>(call: Call, definition: Option<StreamResponseDefinition>, request: Any) -> Streamed<E>
where
    E: From<Failure> + Send + 'static,
{
    streamed(definition.unwrap_or_default(), |mut responses| async move {
        responses.send_rest(&call, vec![request]).await;
    })
}

/// Answers a call that streams its requests and its responses.
///
/// # Errors
///
/// The error of the first request.
pub(crate) async fn bidi_stream<E, S>(call: Call, mut requests: S) -> Result<Streamed<E>, E>
where
    E: From<Failure> + Send + 'static,
    S: Stream<Item = Result<BidiStreamRequest, E>> + Send + Unpin + 'static,
{
    let first = requests.next().await.transpose()?;
    let full_duplex = first.as_ref().is_some_and(|first| first.full_duplex);
    let mut received: Vec<_> = first.iter().map(as_any).collect();
    let definition = first.and_then(|first| first.response_definition).unwrap_or_default();
    if !full_duplex {
        while let Some(request) = requests.next().await.transpose()? {
            received.push(as_any(&request));
        }
    }
    Ok(streamed(definition, |mut responses| async move {
        while full_duplex && !received.is_empty() && responses.are_left() {
            if !responses.send_next(&call, std::mem::take(&mut received)).await {
                return;
            }
            match requests.next().await {
                Some(Ok(request)) => received.push(as_any(&request)),
                Some(Err(error)) => return responses.fail(error).await,
                None => {}
            }
        }
        responses.send_rest(&call, received).await;
    }))
}

/// The responses that a call has asked for.
struct Responses<E> {
    left: std::vec::IntoIter<Vec<u8>>,
    sent: usize,
    delay_ms: u32,
    error: Option<Error>,
    to: Sender<Result<ConformancePayload, E>>,
}

impl<E: From<Failure>> Responses<E> {
    fn are_left(&self) -> bool {
        self.left.len() > 0
    }

    /// Sends the next response. Returns whether the caller still listens.
    async fn send_next(&mut self, call: &Call, requests: Vec<Any>) -> bool {
        let Some(data) = self.left.next() else { return true };
        let mut info = call.info(requests);
        if self.sent > 0 {
            // Only the requests are new.
            info = crate::proto::conformance_payload::RequestInfo { requests: info.requests, ..Default::default() };
        }
        self.sent += 1;
        delay(self.delay_ms).await;
        let request_info = (self.sent == 1 || !info.requests.is_empty()).then_some(info);
        self.to.send(Ok(ConformancePayload { data, request_info })).await.is_ok()
    }

    /// Sends all further responses, the first with these requests, and the error.
    async fn send_rest(&mut self, call: &Call, requests: Vec<Any>) {
        let mut requests = requests;
        while self.are_left() {
            if !self.send_next(call, std::mem::take(&mut requests)).await {
                return;
            }
        }
        if let Some(error) = self.error.take() {
            let info = (self.sent == 0).then(|| any("ConformancePayload.RequestInfo", &call.info(requests)));
            self.fail(Failure::of(error, info).into()).await;
        }
    }

    async fn fail(&self, error: E) {
        // The caller may have left.
        let _ = self.to.send(Err(error)).await;
    }
}

/// Starts a task that sends the responses.
fn streamed<E, F>(definition: StreamResponseDefinition, send: impl FnOnce(Responses<E>) -> F) -> Streamed<E>
where
    F: Future<Output = ()> + Send + 'static,
{
    let (to, responses) = mpsc::channel(1);
    let (headers, trailers) = (map(&definition.response_headers), map(&definition.response_trailers));
    let left = definition.response_data.into_iter();
    tokio::spawn(send(Responses {
        left,
        sent: 0,
        delay_ms: definition.response_delay_ms,
        error: definition.error,
        to,
    }));
    Streamed { headers, trailers, responses: ReceiverStream::new(responses) }
}

impl Failure {
    fn of(error: Error, info: Option<Any>) -> Self {
        Self {
            code: Code::from_i32(error.code),
            message: error.message.unwrap_or_default(),
            details: error.details.into_iter().chain(info).collect(),
        }
    }
}

async fn delay(millis: u32) {
    sleep(Duration::from_millis(millis.into())).await;
}

fn as_any(request: &BidiStreamRequest) -> Any {
    any("BidiStreamRequest", request)
}

fn map(headers: &[Header]) -> HeaderMap {
    let pairs = headers.iter().flat_map(|header| header.value.iter().map(move |value| (&header.name, value)));
    let mut map = HeaderMap::new();
    for (name, value) in pairs {
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), value.parse::<HeaderValue>()) {
            map.append(name, value);
        }
    }
    map
}
