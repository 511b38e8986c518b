//! The metadata of a first response, and of its replays.

use http::Request;
use std::{
    pin::Pin,
    task::{Context, Poll},
};

use http::{HeaderName, HeaderValue, Response};
use http_body_util::{BodyExt as _, StreamBody};
use tonic_idempotency::policy::ReplayedMetadata;
use tower::Service;

use crate::prelude::*;
use crate::raw::{self, Answer};

const TOUCH: &str = "/shop.v1.Shop/Touch";

/// The handler's own headers.
const HEADERS: [(&str, &str); 8] = [
    ("shop-note", "one"),
    ("shop-trace-bin", "AHRyYWNl/w"),
    ("shop-note", "two"),
    ("shop-empty", ""),
    ("shop-note", "one"),
    ("x-request-cost", "17"),
    ("shop-cache", "no-store"),
    ("shop-note-bin", "AQ"),
];

/// The handler's own trailers.
const TRAILERS: [(&str, &str); 5] = [
    ("shop-check-bin", "/////w"),
    ("shop-note", "four"),
    ("shop-note", "three"),
    ("x-request-cost", "18"),
    ("shop-check-bin", "AA"),
];

/// Headers that are never replayed.
const NEVER_REPLAYED: [(&str, &str); 22] = [
    ("dpop-nonce", "of-the-first-caller"),
    ("x-auth-token", "of-the-first-caller"),
    ("x-csrf-token", "of-the-first-caller"),
    ("clear-site-data", "\"cookies\""),
    ("cache-control", "no-store"),
    ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ("tracestate", "shop=1"),
    ("x-request-id", "of-the-first-call"),
    ("set-cookie", "session=of-the-first-caller"),
    ("set-cookie", "other=of-the-first-caller"),
    ("cookie", "a=b"),
    ("authorization", "Bearer of-the-first-caller"),
    ("www-authenticate", "Bearer"),
    ("proxy-authenticate", "Basic"),
    ("server", "shop"),
    ("vary", "origin"),
    ("access-control-allow-origin", "*"),
    ("access-control-expose-headers", "grpc-status"),
    ("alt-svc", "h3=\":443\""),
    ("content-language", "en"),
    ("accept-encoding", "gzip"),
    ("grpc-shop", "1"),
];

fn append(map: &mut HeaderMap, fields: &[(&'static str, &'static str)]) {
    for (name, value) in fields {
        map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
}

fn map(fields: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    append(&mut map, fields);
    map
}

/// A server that adds metadata to the shop's responses, as the request's header `style` says:
///
///   plain     nothing
///   headers   adds headers, also to an error, which has no message
///   all       adds headers and trailers; splits an error into headers and trailers
#[derive(Clone)]
struct Decorated<S>(S);

impl<S: NamedService> NamedService for Decorated<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for Decorated<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let style = request.headers().get("style").cloned();
        let answered = self.0.call(request);
        Box::pin(async move {
            let mut response = answered.await?;
            match style.as_ref().map(HeaderValue::as_bytes) {
                Some(b"headers") => {
                    append(response.headers_mut(), &HEADERS);
                    append(response.headers_mut(), &NEVER_REPLAYED);
                    Ok(response)
                }
                Some(b"all") => Ok(with_trailers(response).await),
                _ => Ok(response),
            }
        })
    }
}

async fn with_trailers(response: Response<Body>) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    let collected = body.collect().await.expect("the shop's answer");
    let mut trailers = collected.trailers().cloned().unwrap_or_default();
    let body = collected.to_bytes();
    if body.is_empty() {
        // A trailers-only error.
        trailers = std::mem::take(&mut parts.headers);
        let content_type = trailers.remove("content-type").expect("a content type");
        parts.headers.insert("content-type", content_type);
    }
    append(&mut parts.headers, &HEADERS);
    append(&mut parts.headers, &NEVER_REPLAYED);
    append(&mut trailers, &TRAILERS);
    append(&mut trailers, &NEVER_REPLAYED);
    let data = (!body.is_empty()).then(|| http_body::Frame::data(body));
    let frames = data.into_iter().chain([http_body::Frame::trailers(trailers)]).map(Ok::<_, Infallible>);
    Response::from_parts(parts, Body::new(StreamBody::new(tokio_stream::iter(frames))))
}

pub(crate) async fn shop(build: impl FnOnce(IdempotencyLayerBuilder) -> IdempotencyLayerBuilder) -> Shop {
    Shop::around(build, |handler| Decorated(shop::server(handler))).await
}

pub(crate) async fn call(shop: &Shop, path: &str, style: &str, name: &str) -> Answer {
    let message = shop::request(name, None, None).into_inner().encode_to_vec();
    raw::post(shop, path, &[("style", style)], raw::frame(0, &message)).await
}

/// The headers without the date and without the time that is left of the record.
pub(crate) fn timeless(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    headers.remove("date");
    headers.remove("idempotency-expires");
    // Beside an error, the layer's report on the key.
    headers.remove("idempotency-outcome");
    headers
}

/// The metadata without that of the first caller and of the connection.
fn replayable(metadata: &HeaderMap) -> HeaderMap {
    let mut metadata = timeless(metadata);
    for (name, _) in NEVER_REPLAYED {
        metadata.remove(name);
    }
    metadata
}

/// Asserts that a replay has exactly the metadata of the first response, apart from what is never replayed.
fn assert_replays(first: &Answer, replay: &Answer, case: &str) {
    let trailers_only = first.headers.contains_key("grpc-status");
    let mut headers = replayable(&first.headers);
    headers.insert("idempotent-replayed", HeaderValue::from_static("true"));
    assert_eq!(timeless(&replay.headers), headers, "{case}");
    assert_eq!(replay.trailers, replayable(&first.trailers), "{case}");
    assert_eq!(replay.headers.contains_key("grpc-status"), trailers_only, "{case}");
    assert_eq!(replay.body, first.body, "{case}");
}

fn final_errors(builder: IdempotencyLayerBuilder) -> IdempotencyLayerBuilder {
    builder.adjust_procedures(|procedure| procedure.final_errors([Code::FailedPrecondition]))
}

/// Every kind of response that is replayed.
pub(crate) const CASES: [(&str, &str, &str); 8] = [
    (CREATE, "plain", "a"),
    (CREATE, "headers", "a"),
    (CREATE, "all", "a"),
    (CREATE, "plain", "fail for good"),
    (CREATE, "headers", "fail for good"),
    (CREATE, "all", "fail for good"),
    (TOUCH, "plain", "a"),
    (TOUCH, "all", "a"),
];

async fn is_replayed(mode: Mode, store: impl Store) {
    let adjust = move |procedure: ProcedureBuilder| {
        procedure.final_errors([Code::FailedPrecondition]).mode(mode).effect(EffectPolicy::Anywhere)
    };
    let shop = shop(|builder| builder.adjust_procedures(adjust).store(store)).await;
    for (path, style, name) in CASES {
        // The shop's orders are not in the database, and a transaction cannot refer to them.
        let path = if mode == Mode::Transactional { TOUCH } else { path };
        let case = format!("{path} {style} {name}");
        let shop = shop.with_new_key();
        let first = call(&shop, path, style, name).await;
        assert!(!first.headers.contains_key("idempotent-replayed"), "{case}");
        assert_eq!(first.headers.get_all("set-cookie").iter().count() >= 2, style != "plain", "{case}");
        for _ in 0..2 {
            // The style of a retry has no effect: the handler does not run.
            assert_replays(&first, &call(&shop, path, "plain", name).await, &case);
        }
        if style == "all" {
            let checks: Vec<_> = first.trailers.get_all("shop-check-bin").iter().collect();
            assert_eq!(checks, ["/////w", "AA"], "{case}");
            assert!(first.trailers.contains_key("grpc-status"), "{case}");
        }
    }
    assert_eq!(shop.handler.started(), CASES.len());
}

#[tokio::test]
async fn is_replayed_as_headers_and_as_trailers_in_memory() {
    is_replayed(Mode::Reserved, MemoryStore::new()).await;
}

#[tokio::test]
async fn is_replayed_as_headers_and_as_trailers_on_postgres() {
    let database = Database::new().await;
    for mode in [Mode::Reserved, Mode::Transactional] {
        is_replayed(mode, postgres(database.pool(4))).await;
    }
}

#[tokio::test]
async fn is_not_stored_if_there_is_none() {
    let database = Database::new().await;
    let shop = shop(|builder| builder.store(postgres(database.pool(4)))).await;
    let stored = "SELECT response_metadata IS NOT NULL FROM tenant.idempotency_keys ORDER BY id";
    call(&shop, TOUCH, "plain", "a").await;
    call(&shop.with_new_key(), TOUCH, "all", "a").await;
    let stored = database.owner().await.query(stored, &[]).await.expect("the records");
    assert_eq!(stored.iter().map(|row| row.get(0)).collect::<Vec<bool>>(), [false, true]);
}

/// The handler's own metadata in the headers and in the trailers of a replay.
async fn left(setting: ReplayedMetadata, name: &str) -> [HeaderMap; 2] {
    let shop = shop(|builder| final_errors(builder).store(MemoryStore::new()).replayed_metadata(setting)).await;
    let first = call(&shop, TOUCH, "all", name).await;
    let replay = call(&shop, TOUCH, "all", name).await;
    assert_eq!(replay.status().code(), first.status().code());
    [replay.headers, replay.trailers].map(|metadata| {
        let mut metadata = timeless(&metadata);
        let layers = ["content-type", "idempotency-status", "idempotent-replayed"];
        for name in ["grpc-status", "grpc-message", "grpc-status-details-bin"].into_iter().chain(layers) {
            metadata.remove(name);
        }
        metadata
    })
}

#[tokio::test]
async fn is_replayed_as_the_setting_says() {
    let without = |fields: &[(&'static str, &'static str)], names: &[&str]| {
        let mut map = map(fields);
        for name in names {
            map.remove(*name);
        }
        map
    };
    let names = ["X-Request-Cost", "shop-note"];
    assert_eq!(left(ReplayedMetadata::custom(), "a").await, [map(&HEADERS), map(&TRAILERS)]);
    assert_eq!(
        left(ReplayedMetadata::custom().except(names), "a").await,
        [without(&HEADERS, &["x-request-cost", "shop-note"]), without(&TRAILERS, &["x-request-cost", "shop-note"])]
    );
    let notes = |fields: &[(&'static str, &'static str)]| {
        map(&fields.iter().copied().filter(|(name, _)| *name == "shop-note").collect::<Vec<_>>())
    };
    for name in ["a", "fail for good"] {
        assert_eq!(left(ReplayedMetadata::none(), name).await, [HeaderMap::new(), HeaderMap::new()], "{name}");
    }
    assert_eq!(left(ReplayedMetadata::only(["Shop-Note"]), "a").await, [notes(&HEADERS), notes(&TRAILERS)]);
}

#[test]
fn that_is_malformed_or_never_replayed_is_refused_as_a_setting() {
    let build = |setting| IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).replayed_metadata(setting).build();
    for (name, _) in NEVER_REPLAYED.into_iter().chain([("Grpc-Status", ""), ("idempotency-status", ""), ("date", "")]) {
        let error = build(ReplayedMetadata::only(["shop-note", name])).expect_err("never replayed");
        assert!(matches!(error, BuildError::MetadataNeverReplayed { .. }), "{error:?}");
        assert!(error.to_string().contains(&name.to_lowercase()), "{error}");
        build(ReplayedMetadata::custom().except([name])).expect("an exception may name it");
    }
    for name in ["", "shop note", "shop-note:", "schön"] {
        for setting in [ReplayedMetadata::only([name]), ReplayedMetadata::custom().except([name])] {
            let error = build(setting).expect_err("not a name");
            assert!(matches!(&error, BuildError::MetadataName { name: wrong } if wrong == name), "{error:?}");
        }
    }
}

#[tokio::test]
async fn is_given_to_waiters_in_the_same_process() {
    let shop = shop(|builder| {
        final_errors(builder)
            .adjust_procedures(|procedure| {
                procedure.on_in_progress(InProgressPolicy::Wait).final_errors([Code::FailedPrecondition])
            })
            .store(MemoryStore::new())
    })
    .await;
    for (nth, name) in ["hold", "hold and fail for good"].into_iter().enumerate() {
        let calls = shop.with_new_key().spawn_all(4, |shop| async move { call(&shop, CREATE, "all", name).await });
        until("the handler runs", async || shop.handler.started() == nth + 1).await;
        shop.handler.open(1);
        let mut answers = calls.join_all().await;
        answers.sort_by_key(|answer| answer.headers.contains_key("idempotent-replayed"));
        let (first, replays) = answers.split_first().expect("calls");
        for replay in replays {
            assert_replays(first, replay, name);
        }
        assert_eq!(shop.handler.started(), nth + 1);
    }
}

#[tokio::test]
async fn that_cannot_be_read_is_left_out_of_the_replay() {
    let (database, owner) = Database::with_owner().await;
    let shop = shop(|builder| builder.store(postgres(database.pool(4)))).await;
    let first = call(&shop, CREATE, "all", "a").await;
    for corrupt in [b"\xff".as_slice(), b"\x0a\x06\x0a\x01\n\x12\x011", b"\x0a\x01"] {
        let update = "UPDATE tenant.idempotency_keys SET response_metadata = $1";
        assert_eq!(owner.execute(update, &[&corrupt]).await.expect("the record"), 1);
        let replay = call(&shop, CREATE, "all", "a").await;
        assert_eq!((replay.status().code(), &replay.body), (Code::Ok, &first.body));
        assert_eq!(replay.headers["idempotent-replayed"], "true");
        assert!(!replay.headers.contains_key("shop-note") && !replay.trailers.contains_key("shop-note"));
    }
    assert_eq!(shop.handler.started(), 1);
}

#[tokio::test]
async fn counts_towards_max_response_bytes() {
    let bytes =
        |metadata: &[(&'static str, &'static str)]| metadata.iter().map(|(a, b)| a.len() + b.len()).sum::<usize>();
    let metadata = bytes(&HEADERS) + bytes(&TRAILERS);
    // The message of Touch is empty.
    for (limit, stored) in [(metadata / 2, false), (metadata * 2, true)] {
        let shop = shop(|builder| builder.store(MemoryStore::new()).max_response_bytes(limit)).await;
        let first = call(&shop, TOUCH, "all", "a").await;
        assert_eq!(first.status().code(), Code::Ok);
        let again = call(&shop, TOUCH, "all", "a").await;
        match stored {
            true => assert_replays(&first, &again, "it fits"),
            false => assert_rejected(&again.status(), Code::FailedPrecondition, Reason::NotStored),
        }
        // Without metadata the response fits.
        let plain = shop.with_new_key();
        call(&plain, TOUCH, "plain", "a").await;
        assert_eq!(call(&plain, TOUCH, "plain", "a").await.body, Bytes::from_static(b"\0\0\0\0\0"));
        assert_eq!(shop.handler.started(), 2);
    }
}
