//! The spans of calls.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use opentelemetry::{
    propagation::TextMapPropagator as _,
    trace::{SpanContext, TraceContextExt as _, TracerProvider as _},
};
use opentelemetry_sdk::{
    error::OTelSdkResult,
    propagation::TraceContextPropagator,
    trace::{SdkTracerProvider, SpanData, SpanProcessor},
};
use tonic::Request;
use tonic_idempotency::{
    IdempotencyLayer, KeyId,
    layer::IdempotencyLayerBuilder,
    policy::{EffectPolicy, Mode},
    store::{MemoryStore, PostgresStore, ResourceType, ResourceTypes},
    telemetry::key_hash,
};
use tonic_idempotency_tests::{
    Database,
    shop::{self, Counting, FILE_DESCRIPTOR_SET, proto::CreateOrderRequest},
    until,
};
use tracing::{
    Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
    subscriber::DefaultGuard,
};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::{layer::Context, prelude::*, registry::LookupSpan};
use uuid::Uuid;

use crate::served;

const SECRET: &[u8] = b"a secret of 32 bytes, or of more";
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// The fields of a span, with its name as `span`, and the name of the span around it as `in`.
type Fields = BTreeMap<String, String>;

/// The spans with the layer's target, in the order of their beginning.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<(Id, Fields)>>>);

impl Spans {
    /// Sees the spans of this thread, while the guard lives.
    fn seen() -> (Self, DefaultGuard) {
        let spans = Self::default();
        let guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(spans.clone()));
        (spans, guard)
    }

    fn take(&self) -> Vec<Fields> {
        std::mem::take(&mut *self.0.lock().expect("no panic")).into_iter().map(|(_, fields)| fields).collect()
    }

    /// The names of the spans and their outcomes since the last time.
    fn outcomes(&self) -> Vec<String> {
        let name = |fields: &Fields| format!("{} {}", fields["span"], fields.get("outcome").map_or("", String::as_str));
        self.take().iter().map(name).collect()
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> tracing_subscriber::Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if attributes.metadata().target() != "tonic_idempotency::span" {
            return;
        }
        let mut fields = Fields::from([("span".to_owned(), attributes.metadata().name().to_owned())]);
        if let Some(parent) = context.span(id).and_then(|span| span.parent()) {
            fields.insert("in".to_owned(), parent.name().to_owned());
        }
        attributes.record(&mut Values(&mut fields));
        self.0.lock().expect("no panic").push((id.clone(), fields));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        let mut spans = self.0.lock().expect("no panic");
        if let Some((_, fields)) = spans.iter_mut().rev().find(|(of, _)| of == id) {
            values.record(&mut Values(fields));
        }
    }
}

struct Values<'a>(&'a mut Fields);

impl Visit for Values<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}

fn store(database: &Database) -> PostgresStore {
    let types = ["order", "payment"].map(|name| ResourceType::new(name, format!("{name}_id"), "shop.orders").tracked());
    PostgresStore::new(database.pool(2), ResourceTypes::new(types)).timeout(Duration::from_secs(30))
}

/// A request with the trace of its client.
fn traced(name: &str, user: Uuid, key: Uuid, parent: &'static str) -> Request<CreateOrderRequest> {
    let mut request = shop::request(name, Some(user), Some(key));
    request.metadata_mut().insert("traceparent", tonic::metadata::MetadataValue::from_static(parent));
    request
}

#[tokio::test]
async fn show_each_step_of_a_call_and_how_it_ended() {
    let (spans, _guard) = Spans::seen();
    let mut client = served(&Counting::default(), |builder| builder.store(MemoryStore::new())).await;
    let (user, key) = (Uuid::new_v4(), Uuid::new_v4());
    client.cancel(shop::request("a", Some(user), Some(key))).await.expect("the first call");
    for fields in spans.take() {
        assert_eq!(fields["procedure"], "/shop.v1.Shop/Cancel");
        assert_eq!(fields.get("key"), None, "there is no secret to hash it with");
    }
    let steps = |outcomes: [&str; 3]| {
        let names = ["claim", "execute", "record"].into_iter().zip(outcomes);
        names.map(|(name, outcome)| format!("idempotency.{name} {outcome}")).collect::<Vec<_>>()
    };
    let replay = vec!["idempotency.claim replay".to_owned(), "idempotency.replay ".to_owned()];
    client.cancel(shop::request("a", Some(user), Some(key))).await.expect("a replay");
    assert_eq!(spans.outcomes(), replay);
    client.cancel(shop::request("a", Some(user), Some(key))).await.expect("a replay from memory");
    assert_eq!(spans.outcomes(), replay[1..]);
    client.cancel(shop::request("b", Some(user), Some(key))).await.expect_err("another request");
    assert_eq!(spans.outcomes(), ["idempotency.claim mismatch"]);

    for (name, outcomes) in [
        ("a", ["acquired", "Ok", "completed"]),
        ("fail", ["acquired", "NotFound", "released"]),
        ("panic", ["acquired", "panicked", "released"]),
        ("effect and fail", ["acquired", "NotFound", "abandoned"]),
    ] {
        let _ = client.cancel(shop::request(name, Some(user), Some(Uuid::new_v4()))).await;
        assert_eq!(spans.outcomes(), steps(outcomes), "{name}");
    }
}

#[tokio::test]
async fn show_the_end_of_a_transaction() {
    let database = Database::new().await;
    let (spans, _guard) = Spans::seen();
    let store = store(&database);
    let mut client = served(&Counting::default(), |builder| {
        builder
            .store(store)
            .adjust_procedures(|procedure| procedure.mode(Mode::Transactional).effect(EffectPolicy::Anywhere))
    })
    .await;
    for (name, outcomes) in [("a", ["Ok", "committed"]), ("fail", ["NotFound", "rolled_back"])] {
        let _ = client.cancel(shop::request(name, Some(Uuid::new_v4()), Some(Uuid::new_v4()))).await;
        let [ended, settled] = outcomes;
        let expected = [
            "idempotency.claim acquired",
            &format!("idempotency.execute {ended}"),
            &format!("idempotency.record {settled}"),
        ];
        assert_eq!(spans.outcomes(), expected);
    }
}

/// Spans that the handler makes are in the layer's, and the layer's in the server's.
#[tokio::test]
async fn have_the_key_as_a_hash_that_whoever_has_the_secret_can_compute() {
    let (spans, _guard) = Spans::seen();
    let build = |builder: IdempotencyLayerBuilder| builder.store(MemoryStore::new()).log_key_hashes_with(SECRET);
    let mut client = served(&Counting::default(), build).await;
    let (user, key) = (Uuid::new_v4(), Uuid::new_v4());
    for _ in 0..2 {
        client.cancel(shop::request("a", Some(user), Some(key))).await.expect("a response");
    }
    let seen = spans.take();
    assert_eq!(seen.len(), 5);
    let hash = key_hash(SECRET, KeyId::new(key).as_uuid());
    assert_eq!(hash.len(), 32);
    for fields in &seen {
        assert_eq!(fields["key"], hash);
        let text = format!("{fields:?}");
        assert!(!text.contains(&key.to_string()) && !text.contains(&user.to_string()), "{text}");
    }
    assert_ne!(key_hash(b"another secret of 32 bytes or so", &key), hash);
    assert_ne!(key_hash(SECRET, &Uuid::new_v4()), hash);
}

#[test]
fn do_not_have_hashes_that_can_be_guessed() {
    for (secret, is_refused) in [(&SECRET[..15], true), (b"", true), (&SECRET[..16], false)] {
        let builder = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).log_key_hashes_with(secret);
        assert_eq!(builder.build().is_err(), is_refused, "{} bytes", secret.len());
    }
}

#[tokio::test]
async fn link_a_replay_with_the_trace_of_the_first_call() {
    let (spans, _guard) = Spans::seen();
    let linked = Arc::new(Mutex::new(Vec::new()));
    let (handler, links) = (Counting::default(), Arc::clone(&linked));
    let mut client = served(&handler, |builder| {
        builder.store(MemoryStore::new()).link_replays(move |first: &str| {
            let current = tracing::Span::current().metadata().map(|span| span.name());
            links.lock().expect("no panic").push((first.to_owned(), current));
        })
    })
    .await;
    let user = Uuid::new_v4();
    let other = "00-11111111111111111111111111111111-2222222222222222-01";
    // From the store, and from memory; of a message, and of a final error.
    let key = Uuid::new_v4();
    for parent in [PARENT, other, other] {
        client.cancel(traced("a", user, key, parent)).await.expect("a response");
    }
    let key = Uuid::new_v4();
    for _ in 0..2 {
        client.cancel(traced("fail for good", user, key, PARENT)).await.expect_err("a final error");
    }
    // To a call that waited.
    let key = Uuid::new_v4();
    let (mut first, mut second, started) = (client.clone(), client.clone(), handler.started());
    let running = tokio::spawn(async move { first.cancel(traced("hold", user, key, PARENT)).await });
    until("it runs", async || handler.started() == started + 1).await;
    let waiting = tokio::spawn(async move { second.cancel(traced("hold", user, key, other)).await });
    // Paused time advances only once it waits.
    tokio::time::pause();
    tokio::time::sleep(Duration::from_millis(1)).await;
    tokio::time::resume();
    handler.open(2);
    for call in [running, waiting] {
        call.await.expect("no panic").expect("a response");
    }
    let replays: Vec<_> = spans.take().into_iter().filter(|fields| fields["span"] == "idempotency.replay").collect();
    let linked = linked.lock().expect("no panic");
    assert_eq!((replays.len(), linked.len()), (4, 4));
    for (fields, link) in replays.iter().zip(&*linked) {
        assert_eq!(fields["first_call.traceparent"], PARENT);
        assert_eq!(link, &(PARENT.to_owned(), Some("idempotency.replay")));
    }
}

/// The links of spans that have ended, and their traces.
#[derive(Clone, Debug, Default)]
struct Links(Arc<Mutex<Vec<Ended>>>);

/// The name of a span, and its links.
type Ended = (String, Vec<SpanContext>);

impl SpanProcessor for Links {
    fn on_start(&self, _: &mut opentelemetry_sdk::trace::Span, _: &opentelemetry::Context) {}

    fn on_end(&self, span: SpanData) {
        let links = span.links.iter().map(|link| link.span_context.clone()).collect();
        self.0.lock().expect("no panic").push((span.name.into_owned(), links));
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// As the page says.
#[tokio::test]
async fn become_links_of_opentelemetry() {
    let links = Links::default();
    let provider = SdkTracerProvider::builder().with_span_processor(links.clone()).build();
    let tracer = tracing_opentelemetry::layer().with_tracer(provider.tracer("shop"));
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(tracer));
    let mut client = served(&Counting::default(), |builder| {
        builder.store(MemoryStore::new()).link_replays(|traceparent: &str| {
            let carrier = HashMap::from([("traceparent".to_owned(), traceparent.to_owned())]);
            let first = TraceContextPropagator::new().extract(&carrier);
            tracing::Span::current().add_link(first.span().span_context().clone());
        })
    })
    .await;
    let (user, key) = (Uuid::new_v4(), Uuid::new_v4());
    for _ in 0..2 {
        client.cancel(traced("a", user, key, PARENT)).await.expect("a response");
    }
    let ended = links.0.lock().expect("no panic");
    let linked: Vec<_> = ended.iter().filter(|(_, links)| !links.is_empty()).collect();
    let [(name, links)] = linked[..] else { panic!("expected one link, got {ended:?}") };
    assert_eq!(name, "idempotency.replay");
    assert_eq!(links[0].trace_id().to_string(), PARENT[3..35]);
    assert_eq!(links[0].span_id().to_string(), PARENT[36..52]);
}

/// Neither a call without a trace, nor an invalid `traceparent`.
#[tokio::test]
async fn do_not_link_a_replay_with_anything_else() {
    let (spans, _guard) = Spans::seen();
    let mut client = served(&Counting::default(), |builder| builder.store(MemoryStore::new())).await;
    let user = Uuid::new_v4();
    for (parent, linked) in [
        (PARENT, true),
        ("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more", true),
        ("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01more", false),
        ("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", false),
        ("00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01", false),
        ("a secret", false),
        ("", false),
    ] {
        let key = Uuid::new_v4();
        for _ in 0..2 {
            client.cancel(traced("a", user, key, parent)).await.expect("a response");
        }
        let replay = spans.take().pop().expect("a span");
        let expected = linked.then(|| parent[..55].to_owned());
        assert_eq!(replay.get("first_call.traceparent"), expected.as_ref(), "{parent}");
    }
}

/// Without spans, tracing adds nothing to a record.
#[tokio::test]
async fn store_nothing_if_nobody_looks_at_them() {
    let database = Database::new().await;
    let store = store(&database);
    let mut client = served(&Counting::default(), |builder| builder.store(store)).await;
    let quiet = tracing::subscriber::set_default(tracing::subscriber::NoSubscriber::default());
    let user = Uuid::new_v4();
    client.cancel(traced("a", user, Uuid::new_v4(), PARENT)).await.expect("the first call");
    drop(quiet);
    let metadata = "SELECT count(response_metadata) FROM tenant.idempotency_keys";
    let stored = async || database.owner().await.query_one(metadata, &[]).await.expect("the count").get::<_, i64>(0);
    assert_eq!(stored().await, 0);
    let (_spans, _guard) = Spans::seen();
    client.cancel(traced("a", user, Uuid::new_v4(), PARENT)).await.expect("the first call");
    assert_eq!(stored().await, 1);
}
