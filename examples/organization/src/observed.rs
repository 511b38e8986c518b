//! The span and the metric of each call, by the names of OpenTelemetry's semantic conventions 1.45.

use std::{
    collections::HashSet,
    pin::Pin,
    sync::LazyLock,
    task::{Context, Poll, ready},
    time::Instant,
};

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::Request,
    http::{HeaderMap, Response},
    middleware::Next,
};
use http_body::{Frame, SizeHint};
use metrics::{Unit, describe_histogram, histogram};
use prost::Message as _;
use prost_types::FileDescriptorSet;
use tracing::{Instrument as _, Span, field::Empty};

use crate::FILE_DESCRIPTOR_SET;

const DURATION: &str = "rpc.server.call.duration";

/// The methods by their full names. A client may ask for any other, and each would be a series of its own.
static METHODS: LazyLock<HashSet<String>> = LazyLock::new(|| {
    describe_histogram!(DURATION, Unit::Seconds, "The time of a call.");
    let sets = [FILE_DESCRIPTOR_SET, tonic_idempotency::proto::FILE_DESCRIPTOR_SET];
    let files = sets.iter().filter_map(|set| FileDescriptorSet::decode(*set).ok()).flat_map(|set| set.file);
    let methods = files.flat_map(|file| {
        let package = file.package().to_owned();
        file.service.into_iter().flat_map(move |service| {
            let service_name = format!("{package}.{}", service.name());
            service.method.into_iter().map(move |method| format!("{service_name}/{}", method.name()))
        })
    });
    methods.collect()
});

/// The codes of gRPC by their numbers.
const CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// Carries the call out in its span, and measures it until its last byte.
pub(crate) async fn observe(request: Request, next: Next) -> Response<Body> {
    let method = method(request.uri().path());
    let span = tracing::info_span!(
        target: "organization::rpc",
        "rpc",
        otel.name = method,
        otel.kind = "server",
        rpc.system.name = "grpc",
        rpc.method = method,
        rpc.response.status_code = Empty,
    );
    let mut observed = Observed { method, span: span.clone(), begun: Instant::now(), code: None };
    let response = next.run(request).instrument(span).await;
    observed.reads(response.headers());
    response.map(|body| Body::new(ObservedBody { body, observed }))
}

/// Returns the method of a path. All that there are not have one name.
fn method(path: &str) -> &'static str {
    path.strip_prefix('/').and_then(|path| METHODS.get(path)).map_or("_OTHER", String::as_str)
}

/// A call until its end. If its client leaves before, it is cancelled.
struct Observed {
    method: &'static str,
    span: Span,
    begun: Instant,
    code: Option<&'static str>,
}

impl Observed {
    /// Reads the code, which an answer without a message has among its headers, and any other among its trailers.
    fn reads(&mut self, fields: &HeaderMap) {
        let number = fields.get("grpc-status").and_then(|code| code.to_str().ok()?.parse::<usize>().ok());
        self.code = number.map(|number| CODES.get(number).copied().unwrap_or("UNKNOWN")).or(self.code);
    }
}

impl Drop for Observed {
    fn drop(&mut self) {
        let code = self.code.unwrap_or("CANCELLED");
        self.span.record("rpc.response.status_code", code);
        let labels = [("rpc.system.name", "grpc"), ("rpc.method", self.method), ("rpc.response.status_code", code)];
        histogram!(DURATION, &labels).record(self.begun.elapsed());
    }
}

struct ObservedBody {
    body: Body,
    observed: Observed,
}

impl HttpBody for ObservedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(trailers) = frame.trailers_ref()
        {
            self.observed.reads(trailers);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_clients_make_up_are_one_method() {
        for known in ["organization.v1.ProjectService/CreateProject", "idempotency.v1.OperationService/WaitOperation"] {
            assert_eq!(method(&format!("/{known}")), known);
        }
        for made_up in ["/organization.v1.ProjectService/CreateProjects", "/", "", "//", "/x/y"] {
            assert_eq!(method(made_up), "_OTHER");
        }
    }
}
