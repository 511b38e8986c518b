//! Gives calls the keys, users and retries of a caller with keys, which the suite's client does not know.

use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::{FutureExt as _, future::BoxFuture};
use http::{HeaderValue, Method, Request, Response, StatusCode, request::Parts};
use http_body_util::{BodyExt as _, Full};
use tonic::{Code, body::Body};
use tonic_idempotency::{IdempotencyKey, UserId};
use tower::{Service, ServiceExt as _};
use tower_layer::Layer;
use uuid::Uuid;

use crate::{
    call::Query,
    setup::Setup,
    witness::{Runs, Witness},
};

/// The procedures that take keys.
pub(crate) const UNARY: [&str; 3] = [
    "/connectrpc.conformance.v1.ConformanceService/IdempotentUnary",
    "/connectrpc.conformance.v1.ConformanceService/Unary",
    "/connectrpc.conformance.v1.ConformanceService/Unimplemented",
];

/// The errors that are replayed: all that can be.
pub(crate) const FINAL: [Code; 9] = [
    Code::AlreadyExists,
    Code::DataLoss,
    Code::FailedPrecondition,
    Code::InvalidArgument,
    Code::NotFound,
    Code::OutOfRange,
    Code::PermissionDenied,
    Code::Unauthenticated,
    Code::Unimplemented,
];

/// The layers and the service behind a caller.
#[derive(Clone, Debug)]
pub(crate) struct Caller<S> {
    setup: Setup,
    service: S,
}

impl<S> Layer<S> for Setup {
    type Service = Caller<S>;

    fn layer(&self, service: S) -> Caller<S> {
        Caller { setup: *self, service }
    }
}

impl<S, B, R> Service<Request<B>> for Caller<S>
where
    S: Service<Request<Body>, Response = Response<R>> + Clone + Send + 'static,
    S::Error: Send,
    S::Future: Send,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<tonic::codegen::StdError>,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<tonic::codegen::StdError>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<Body>, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let clone = self.service.clone();
        let service = std::mem::replace(&mut self.service, clone);
        send(self.setup, service, request.map(Body::new)).boxed()
    }
}

/// Sends a request as the setup says.
async fn send<S, R>(setup: Setup, mut service: S, request: Request<Body>) -> Result<Response<Body>, S::Error>
where
    S: Service<Request<Body>, Response = Response<R>> + Clone,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<tonic::codegen::StdError>,
{
    let (mut parts, body) = request.into_parts();
    if parts.method == Method::GET {
        parts.extensions.insert(query(&parts));
    }
    let has_key = UNARY.contains(&parts.uri.path()) && matches!(setup, Setup::Keyed | Setup::Replayed);
    if has_key {
        let key = HeaderValue::try_from(Uuid::new_v4().to_string()).expect("a UUID is a header value");
        parts.headers.insert(IdempotencyKey::HEADER, key);
        parts.extensions.insert(UserId::new(Uuid::from_u128(1)));
    }
    if !has_key || setup != Setup::Replayed {
        return service.call(Request::from_parts(parts, body)).await.map(|response| response.map(Body::new));
    }
    let Ok(body) = body.collect().await else { return Ok(refused("the body cannot be read")) };
    let (body, witness) = (body.to_bytes(), Witness::default());
    parts.extensions.insert(witness.clone());
    let again = Request::from_parts(parts.clone(), Body::new(Full::new(body.clone())));
    let first = service.call(Request::from_parts(parts, Body::new(Full::new(body)))).await?;
    let (head, body) = first.into_parts();
    let Ok(body) = body.collect().await else { return Ok(refused("the first answer cannot be read")) };
    let after_first = witness.runs();
    if after_first.started > after_first.ended {
        // The caller's time is up, and the handler still runs: there is nothing to replay yet.
        return Ok(Response::from_parts(head, Body::new(body)));
    }
    let second = service.ready().await?.call(again).await?;
    Ok(judge(second.map(Body::new), after_first, witness.runs()))
}

/// Passes on the second answer, unless it should have been a replay and is none.
fn judge(second: Response<Body>, after_first: Runs, after_second: Runs) -> Response<Body> {
    let replayed = second.headers().get("idempotent-replayed").is_some_and(|value| value == "true");
    let is_final = after_first.code.is_some_and(|code| code == Code::Ok || FINAL.contains(&code));
    match is_final {
        true if !replayed => refused("the second answer is not a replay"),
        true if after_second.started != 1 => refused("the handler ran twice"),
        false if replayed => refused("a replay of an answer that is not final"),
        _ => second,
    }
}

/// Returns an answer that no case of the suite expects: its code is PERMISSION_DENIED, without a message.
fn refused(why: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::new(Full::new(Bytes::from_static(why.as_bytes()))));
    *response.status_mut() = StatusCode::FORBIDDEN;
    response
}

fn query(parts: &Parts) -> Query {
    Query(form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes()).into_owned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(started: usize, code: Code) -> Runs {
        Runs { started, ended: started, code: Some(code) }
    }

    fn answer(replayed: bool) -> Response<Body> {
        let mut response = Response::new(Body::empty());
        if replayed {
            response.headers_mut().insert("idempotent-replayed", HeaderValue::from_static("true"));
        }
        response
    }

    fn passes(second: Response<Body>, first: Runs, both: Runs) -> bool {
        judge(second, first, both).status() == StatusCode::OK
    }

    #[test]
    fn passes_on_a_replay_of_a_final_answer() {
        for code in [Code::Ok, Code::NotFound] {
            assert!(passes(answer(true), runs(1, code), runs(1, code)), "{code:?}");
        }
    }

    #[test]
    fn passes_on_the_second_run_of_a_call_that_failed_for_now() {
        assert!(passes(answer(false), runs(1, Code::Unavailable), runs(2, Code::Unavailable)));
    }

    #[test]
    fn passes_on_a_refusal_of_a_call_that_never_ran() {
        assert!(passes(answer(false), Runs::default(), Runs::default()));
    }

    #[test]
    fn does_not_pass_on_a_final_answer_that_is_not_a_replay() {
        for code in [Code::Ok, Code::NotFound] {
            assert!(!passes(answer(false), runs(1, code), runs(1, code)), "{code:?}: not marked");
            assert!(!passes(answer(true), runs(1, code), runs(2, code)), "{code:?}: ran twice");
        }
    }

    #[test]
    fn does_not_pass_on_a_replay_of_what_is_not_final() {
        assert!(!passes(answer(true), runs(1, Code::Unavailable), runs(1, Code::Unavailable)));
    }
}
