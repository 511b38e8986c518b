//! Metrics and logs. One test of them, because a process has one recorder of metrics and one subscriber of logs.

mod alerts;
mod dashboard;
mod documented;
mod faults;
mod promtool;
mod runbooks;
mod spans;
mod statements;
mod watching;

use std::{convert::Infallible, time::Duration};
use tonic_idempotency::policy::{Limit, Limits};

use metrics::{SharedString, Unit};
use metrics_util::{
    CompositeKey,
    debugging::{DebugValue, DebuggingRecorder, Snapshotter},
};
use tokio::{runtime::Builder, task::JoinSet};
use tonic::{
    service::{Routes, interceptor::InterceptedService},
    transport::Channel,
};
use tonic_idempotency::{
    Caller, IdempotencyLayer, KeyId, OwnerId, UserId,
    layer::IdempotencyLayerBuilder,
    maintenance::Sweeper,
    policy::{EffectPolicy, ForeignPolicy, LeasePolicy, Mode, Policies, Procedure, UnprotectedKeyPolicy, UserPolicy},
    run::{Bytes, Call, Json, Operation, RunError},
    status::OutboxStatus,
    store::{
        CallSession, Claim, MemoryStore, PostgresStore, RequestHash, Reservation, ResourceType, ResourceTypes,
        Store as _, TransactionOptions,
    },
};
use tonic_idempotency_tests::{
    Database, Lines, proceeding,
    shop::{self, Counting, FILE_DESCRIPTOR_SET, proto::shop_client::ShopClient},
    until,
};
use tower::ServiceExt as _;
use tower_layer::Layer as _;
use uuid::Uuid;

/// A metric in a snapshot.
type Metric = (CompositeKey, Option<Unit>, Option<SharedString>, DebugValue);

/// A claim for an hour.
fn claim(user: Uuid, key: Uuid) -> Claim {
    let hour = Duration::from_secs(3600);
    Claim {
        reservation: Reservation::new(OwnerId::new(user), KeyId::new(key)),
        session: CallSession::default(),
        procedure: "/shop.v1.Shop/Touch".to_owned(),
        request: RequestHash::from([7; 32]).into(),
        lease: hour,
        retention: hour,
        on_lease_ended: LeasePolicy::Rerun,
        on_foreign_reservation: ForeignPolicy::InProgress,
        effect: EffectPolicy::Anywhere,
        resource_type: None,
    }
}

/// The words in the event of a call that runs unprotected: its level, its target and its fields.
fn unprotected(procedure: &str, cause: &str) -> [String; 3] {
    [" WARN tonic_idempotency: ".to_owned(), format!(r#"procedure="{procedure}""#), format!(r#"cause="{cause}""#)]
}

/// The increments of the counters with these labels since the last snapshot.
fn counted(snapshotter: &Snapshotter, name: &str, labels: &[(&str, &str)]) -> u64 {
    count(&snapshotter.snapshot().into_vec(), name, labels)
}

/// The same in a snapshot.
fn count(counters: &[Metric], name: &str, labels: &[(&str, &str)]) -> u64 {
    let matching = counters.iter().filter(|(key, ..)| {
        key.key().name() == name
            && labels
                .iter()
                .all(|(label, value)| key.key().labels().any(|found| found.key() == *label && found.value() == *value))
    });
    matching
        .map(|(.., value)| match value {
            DebugValue::Counter(value) => *value,
            other => panic!("expected a counter, got {other:?}"),
        })
        .sum()
}

/// The values of the gauges of this name, of all modes or of one, since the last snapshot, which sets gauges to zero.
fn gauge(values: &[Metric], name: &str, mode: Option<&str>) -> f64 {
    let found = values.iter().filter(|(key, ..)| {
        key.key().name() == name && mode.is_none_or(|mode| key.key().labels().any(|label| label.value() == mode))
    });
    let value = |value: &DebugValue| match value {
        DebugValue::Gauge(value) => **value,
        other => panic!("expected a gauge, got {other:?}"),
    };
    found.map(|(.., of)| value(of)).sum()
}

/// The calls in flight, the calls that wait, and the bytes of these.
fn gauges(snapshotter: &Snapshotter) -> [f64; 3] {
    let values = snapshotter.snapshot().into_vec();
    ["idempotency_in_flight", "idempotency_waiting", "idempotency_waiting_bytes"].map(|name| gauge(&values, name, None))
}

/// The change of the number of calls that hold their keys: reserved and transactional ones.
fn reserved(snapshotter: &Snapshotter) -> [f64; 2] {
    let values = snapshotter.snapshot().into_vec();
    ["reserved", "transactional"].map(|mode| gauge(&values, "idempotency_reserved", Some(mode)))
}

/// The numbers of values in the histograms of a procedure: claims, handlers and records; and of times that calls have waited.
fn measured(snapshotter: &Snapshotter, procedure: &str) -> [usize; 4] {
    let values = snapshotter.snapshot().into_vec();
    ["claim", "handler", "record", "wait"].map(|step| {
        let name = format!("idempotency_{step}_seconds");
        let found = values
            .iter()
            .filter(|(key, ..)| key.key().name() == name && key.key().labels().all(|label| label.value() == procedure));
        let values = found.flat_map(|(.., value)| match value {
            DebugValue::Histogram(values) => values.clone(),
            other => panic!("expected a histogram, got {other:?}"),
        });
        let values: Vec<_> = values.collect();
        assert!(values.iter().all(|seconds| (0.0..60.0).contains(&**seconds)), "{step}: {values:?}");
        values.len()
    })
}

/// The change of the number of outcomes that wait to be recorded.
fn waiting(snapshotter: &Snapshotter) -> f64 {
    gauge(&snapshotter.snapshot().into_vec(), "idempotency_outcomes_waiting", None)
}

/// A client of a server in this process, with a layer that is built so.
async fn served(
    handler: &Counting,
    build: impl FnOnce(IdempotencyLayerBuilder) -> IdempotencyLayerBuilder,
) -> ShopClient<Channel> {
    let layer = build(IdempotencyLayer::builder(FILE_DESCRIPTOR_SET)).build().expect("a layer");
    let routes = Routes::new(InterceptedService::new(layer.layer(shop::server(handler.clone())), shop::authenticate));
    ShopClient::new(shop::serve_in_memory(routes).await)
}

/// Runs a test on one thread, with a recorder of its own.
fn recorded(runtime: &mut Builder, test: impl AsyncFnOnce(&Snapshotter)) {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let runtime = runtime.enable_all().build().expect("a runtime");
    metrics::with_local_recorder(&recorder, || runtime.block_on(test(&snapshotter)));
}

#[tokio::test]
async fn every_call_that_goes_wrong_is_logged_and_counted_without_keys_users_or_messages() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    recorder.install().expect("the only recorder");
    let lines = Lines::default();
    tracing_subscriber::fmt().with_ansi(false).with_writer(lines.clone()).init();

    let database = Database::new().await;
    let (proxy, pool) = database.pool_through_proxy(4).await;
    let types = ["order", "payment"].map(|name| ResourceType::new(name, format!("{name}_id"), "shop.orders").tracked());
    let store = PostgresStore::new(pool, ResourceTypes::new(types)).timeout(Duration::from_secs(30));
    let policies = Policies { on_no_user: UserPolicy::PassThrough, ..proceeding() };
    let builder = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(store.clone()).policies(policies);
    let layer = builder.build().expect("a layer");
    let handler = Counting::default();
    let wrapped = layer.layer(shop::server(handler.clone()));
    let address = shop::serve(Routes::new(InterceptedService::new(wrapped, shop::authenticate))).await;
    let mut client = shop::client(address).await;
    let (user, key) = (Uuid::new_v4(), Uuid::new_v4());
    let secret = "a name that must not be logged";
    let create = "/shop.v1.Shop/CreateOrder";
    let check = |what: &str, counter: &str, labels: &[(&str, &str)], words: &[&str]| {
        assert_eq!(counted(&snapshotter, counter, labels), 1, "{what}");
        let lines = lines.take();
        assert!(words.iter().all(|word| lines.contains(word)), "{what}: {words:?} in {lines}");
        for private in [secret, &user.to_string(), &key.to_string()] {
            assert!(!lines.contains(private), "{what}: {private} in {lines}");
        }
    };

    client.create_order(shop::request(secret, None, Some(key))).await.expect("a call");
    let labels = [("procedure", create), ("cause", "no_user")];
    check(
        "no user",
        "idempotency_unprotected_total",
        &labels,
        &unprotected(create, "no_user").each_ref().map(String::as_str),
    );

    client.create_order(shop::request(secret, Some(user), Some(key))).await.expect("the first call");
    let labels = [("procedure", create), ("outcome", "first")];
    // The tests' orders are in no table of the database.
    check("first", "idempotency_calls_total", &labels, &["WARN", "cannot be referenced"]);

    client.create_order(shop::request(secret, Some(user), Some(key))).await.expect("a replay");
    let labels = [("procedure", create), ("cause", "status_unknown")];
    check("replay", "idempotency_degraded_total", &labels, &["WARN", create, "status_unknown"]);

    client.create_order(shop::request("another", Some(user), Some(key))).await.expect_err("refused");
    let labels = [("procedure", create), ("reason", "IDEMPOTENCY_KEY_REUSED")];
    check("mismatch", "idempotency_rejected_total", &labels, &[]);

    client.create_order(shop::request("panic", Some(user), Some(Uuid::new_v4()))).await.expect_err("a panic");
    assert!(lines.take().contains("ERROR"), "a panic is an error");

    let hasty = store.clone().timeout(Duration::from_secs(1));
    let session = CallSession::default();
    let begin = || hasty.begin_without_key(Some(OwnerId::new(user)), &session, TransactionOptions::default());
    let open = [begin().await.expect("a transaction"), begin().await.expect("a transaction")];
    begin().await.expect_err("one user has two of three");
    let labels = [("cause", "user_limit")];
    check("limit", "idempotency_transactions_refused_total", &labels, &["WARN", "user_limit"]);
    for transaction in open {
        transaction.roll_back().await;
    }

    // The detail of a database's error may quote the row.
    let owner = database.owner().await;
    let sql = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 RAISE EXCEPTION 'untouched' USING ERRCODE = '23514', DETAIL = 'it is of ' || NEW.user_id;
             END $$;
             CREATE TRIGGER refuse BEFORE INSERT ON tenant.idempotency_keys FOR EACH ROW
                 WHEN (NEW.procedure LIKE '%Touch') EXECUTE FUNCTION refuse()";
    owner.batch_execute(sql).await.expect("the trigger");
    let touch = shop::request(secret, Some(user), Some(Uuid::from_u128(key.as_u128() ^ 1)));
    client.touch(touch).await.expect_err("refused");
    let labels = [("procedure", "/shop.v1.Shop/Touch"), ("kind", "refused")];
    check("refused statement", "idempotency_store_errors_total", &labels, &["ERROR", "untouched", "23514"]);

    proxy.cut();
    client.create_order(shop::request(secret, Some(user), Some(key))).await.expect("a call");
    let labels = [("procedure", create), ("cause", "unreachable")];
    check(
        "unreachable",
        "idempotency_unprotected_total",
        &labels,
        &unprotected(create, "unreachable").each_ref().map(String::as_str),
    );

    client.pay(shop::request(secret, Some(user), Some(key))).await.expect_err("refused");
    let labels = [("procedure", "/shop.v1.Shop/Pay"), ("reason", "IDEMPOTENCY_STORE_UNAVAILABLE")];
    check("refused", "idempotency_rejected_total", &labels, &["WARN", "/shop.v1.Shop/Pay"]);

    // An outcome that the store does not take is counted while it waits.
    proxy.mend();
    let (started, mut holding) = (handler.started(), client.clone());
    let held = shop::request("hold", Some(user), Some(Uuid::from_u128(key.as_u128() ^ 2)));
    let call = tokio::spawn(async move { holding.create_order(held).await });
    until("the handler runs", async || handler.started() == started + 1).await;
    proxy.cut();
    handler.open(1);
    call.await.expect("no panic").expect("a response");
    assert_eq!(waiting(&snapshotter), 1.0);
    let logged = lines.take();
    assert!(["WARN", create, "not recorded yet"].iter().all(|word| logged.contains(word)), "{logged}");
    proxy.mend();
    until("it is recorded", async || waiting(&snapshotter) == -1.0).await;

    // A call whose transaction loses twice is one call, and no line for an operator.
    let lose = "CREATE SEQUENCE public.tries; GRANT ALL ON SEQUENCE public.tries TO PUBLIC;
        CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF nextval('public.tries') < 3 THEN RAISE EXCEPTION 'lost' USING ERRCODE = 'serialization_failure'; END IF;
            RETURN NEW;
        END $$;
        CREATE TRIGGER lose BEFORE INSERT ON tenant.idempotency_keys FOR EACH ROW
            WHEN (NEW.procedure LIKE '%GetOrder') EXECUTE FUNCTION lose()";
    owner.batch_execute(lose).await.expect("the trigger");
    let get = "/shop.v1.Shop/GetOrder";
    let procedure = Procedure::builder(get).mode(Mode::Transactional);
    let mut client = served(&handler, |builder| builder.store(store.clone()).procedure(procedure)).await;
    lines.take();
    client.get_order(shop::request(secret, Some(user), Some(Uuid::new_v4()))).await.expect("the third attempt");
    let values = snapshotter.snapshot().into_vec();
    assert_eq!(count(&values, "idempotency_calls_total", &[("procedure", get), ("outcome", "first")]), 1);
    assert_eq!(count(&values, "idempotency_reruns_total", &[("procedure", get)]), 2);
    assert_eq!(count(&values, "idempotency_settle_failures_total", &[("procedure", get)]), 0);
    let logged = lines.take();
    assert!(!logged.contains("lost") && !logged.contains("not committed"), "{logged}");

    owner.batch_execute("UPDATE tenant.idempotency_keys SET expires = now() - interval '1 day'").await.expect("time");
    Sweeper::new(store.clone()).sweep().await.expect("the sweep");
    assert_eq!(counted(&snapshotter, "idempotency_swept_total", &[]), 3);
    assert!(lines.take().contains("deleted=3"));
    Sweeper::new(store).sweep().await.expect("another sweep");
    assert_eq!(lines.take(), "", "nothing to delete, and nothing to say");

    // In memory, the work behind a resource is pending until a test says otherwise.
    let memory = MemoryStore::new();
    let mut client = served(&Counting::default(), |builder| builder.store(memory.clone())).await;
    let first = client.create_order(shop::request(secret, Some(user), Some(key))).await.expect("the first call");
    let order: Uuid = first.into_inner().order.expect("an order").id.parse().expect("a UUID");
    let labels = [("procedure", create), ("cause", "status_unknown")];
    for (status, is_degraded) in [(Some(OutboxStatus::Pending), 0), (None, 1)] {
        client.create_order(shop::request(secret, Some(user), Some(key))).await.expect("a replay");
        assert_eq!(counted(&snapshotter, "idempotency_degraded_total", &labels), 0, "before {status:?}");
        memory.set_status(order, status);
        client.create_order(shop::request(secret, Some(user), Some(key))).await.expect("a replay");
        assert_eq!(counted(&snapshotter, "idempotency_degraded_total", &labels), is_degraded, "{status:?}");
    }

    // Each waiting duplicate counts as a call of its own.
    let handler = Counting::default();
    let client = served(&handler, |builder| builder.store(MemoryStore::new())).await;
    let mut calls = JoinSet::new();
    for _ in 0..4 {
        let (mut client, request) = (client.clone(), shop::request("hold", Some(user), Some(key)));
        calls.spawn(async move { client.cancel(request).await });
    }
    // Paused time advances only once all of them wait.
    tokio::time::pause();
    tokio::time::sleep(Duration::from_millis(1)).await;
    tokio::time::resume();
    let message = prost::Message::encoded_len(shop::request("hold", None, None).get_ref());
    assert_eq!(gauges(&snapshotter), [1.0, 3.0, 3.0 * message as f64]);
    handler.open(1);
    assert!(calls.join_all().await.iter().all(Result::is_ok));
    let labels = [("procedure", "/shop.v1.Shop/Cancel"), ("outcome", "replayed")];
    assert_eq!((counted(&snapshotter, "idempotency_calls_total", &labels), handler.started()), (3, 1));

    // The time of each step, for each call that took the step.
    let (cancel, later) = ("/shop.v1.Shop/Cancel", Uuid::new_v4());
    measured(&snapshotter, cancel);
    let mut calls = JoinSet::new();
    for _ in 0..3 {
        let (mut client, request) = (client.clone(), shop::request("hold", Some(user), Some(later)));
        calls.spawn(async move { client.cancel(request).await });
    }
    let started = handler.started();
    until("it runs", async || handler.started() == started.max(2)).await;
    assert_eq!(reserved(&snapshotter), [1.0, 0.0]);
    handler.open(1);
    assert!(calls.join_all().await.iter().all(Result::is_ok));
    // Its claim was in the last snapshot.
    assert_eq!(measured(&snapshotter, cancel), [0, 1, 1, 2]);
    let mut client = client;
    client.cancel(shop::request("hold", Some(user), Some(later))).await.expect("a replay");
    assert_eq!(measured(&snapshotter, cancel), [1, 0, 0, 0]);
    client.cancel(shop::request("another", Some(user), Some(later))).await.expect_err("refused");
    let values = snapshotter.snapshot().into_vec();
    assert!(values.iter().all(|(_, unit, description, _)| unit.is_some() && description.is_some()), "{values:?}");

    // The first replay comes from the store, and the next from memory.
    for from_memory in [0, 1, 1] {
        client.cancel(shop::request("hold", Some(user), Some(key))).await.expect("a replay");
        assert_eq!(counted(&snapshotter, "idempotency_cached_replays_total", &labels[..1]), from_memory);
    }
    assert_eq!(gauges(&snapshotter), [0.0; 3]);

    // A refusal because of a limit.
    let limits = Limits { in_flight: Limit::new(900, 1), ..Limits::default() };
    let handler = Counting::default();
    let mut client = served(&handler, |builder| builder.store(MemoryStore::new()).limits(limits)).await;
    assert_eq!(gauge(&snapshotter.snapshot().into_vec(), "idempotency_in_flight_limit", None), 900.0);
    let (mut first, request) = (client.clone(), shop::request("hold", Some(user), Some(key)));
    let running = tokio::spawn(async move { first.create_order(request).await });
    until("it runs", async || handler.started() == 1).await;
    lines.take();
    client.create_order(shop::request(secret, Some(user), Some(Uuid::new_v4()))).await.expect_err("refused");
    let labels = [("limit", "in_flight"), ("of", "caller")];
    check("limit", "idempotency_overloaded_total", &labels, &["WARN", create, "in_flight"]);
    handler.open(1);
    running.await.expect("no panic").expect("a response");

    // A handler that blocks its thread beyond its time is answered for, and counted until it ends.
    let (handler, timeout) = (Counting::default(), Duration::from_millis(100));
    let policies = Policies { handler_timeout: timeout, ..Policies::default() };
    let (blocked, request) = (handler.clone(), shop::request("block", Some(user), Some(Uuid::new_v4())));
    lines.take();
    let blocking = std::thread::spawn(move || {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let mut client = served(&blocked, |builder| builder.store(MemoryStore::new()).policies(policies)).await;
            client.create_order(request).await.expect_err("it takes too long");
        });
        runtime
    });
    let runtime = blocking.join().expect("no panic");
    let values = snapshotter.snapshot().into_vec();
    assert_eq!(gauge(&values, "idempotency_handlers_left", None), 1.0);
    assert_eq!(count(&values, "idempotency_handler_timeouts_total", &[("procedure", create)]), 1);
    let logged = lines.take();
    assert!(["WARN", create, "handler_timeout"].iter().all(|word| logged.contains(word)), "{logged}");
    handler.open(1);
    let left = async || gauge(&snapshotter.snapshot().into_vec(), "idempotency_handlers_left", None);
    until("it ends", async || left().await == -1.0).await;
    runtime.shutdown_background();

    // Of a dead letter the log has the key as it is stored, and not the id, which may be anything.
    let charge = "billing.v1/ChargeOrder";
    let layer = IdempotencyLayer::builder([]).store(MemoryStore::new()).procedure(Procedure::operation(charge));
    let operation: Operation<Bytes> = layer.build().expect("a layer").operation(charge).expect("it is declared");
    let (caller, id) = (Caller::new(UserId::new(user)), key.to_string());
    let receive = async |message: &[u8]| {
        let handler = |_, _| async { Ok::<_, Infallible>(Vec::new()) };
        operation.receive(&caller, |_| &id, message, handler).await.is_ok()
    };
    assert!(receive(b"first").await);
    let labels = [("procedure", "/billing.v1/ChargeOrder"), ("cause", "id_reused")];
    let stored = KeyId::of_operation(charge, &id).to_string();
    for words in [["WARN", "id_reused", &stored].as_slice(), &[]] {
        lines.take();
        assert!(!receive(secret.as_bytes()).await);
        assert_eq!(lines.count("dead letters"), usize::from(!words.is_empty()));
        check("a dead letter", "idempotency_dead_letters_total", &labels, words);
    }

    // So does one that cannot be read, and has no key. An operation inside of a handler has no message of its own.
    let layer = IdempotencyLayer::builder([]).store(MemoryStore::new()).procedure(Procedure::operation(charge));
    let json: Operation<Json<u8, u8>> = layer.build().expect("a layer").operation(charge).expect("it is declared");
    let labels = [("procedure", "/billing.v1/ChargeOrder"), ("cause", "malformed")];
    lines.take();
    let around = json.clone();
    let nested = move |call: Call, _| async move {
        let caller = call.caller().clone();
        let inner = around.receive(&caller, |_| "2", secret.as_bytes(), |_, _| async { Ok::<_, Infallible>(1) }).await;
        assert!(matches!(inner, Err(RunError::Malformed(_))), "{inner:?}");
        Ok::<_, Infallible>(1)
    };
    json.receive(&caller, |_| "1", b"1", nested).await.expect("it runs");
    assert_eq!(lines.count("dead letters"), 0);
    let unread = json.receive(&caller, |_| &id, secret.as_bytes(), |_, _| async { Ok::<_, Infallible>(1) }).await;
    assert!(matches!(unread, Err(RunError::Malformed(_))), "{unread:?}");
    check("an unreadable message", "idempotency_dead_letters_total", &labels, &["WARN", "malformed"]);

    // A run that stands in line says so after a minute.
    let builder = IdempotencyLayer::builder([]).store(MemoryStore::new()).limits(limits);
    let layer = builder.procedure(Procedure::operation(charge)).build().expect("a layer");
    let operation: Operation<Bytes> = layer.operation(charge).expect("it is declared");
    let run = async |id: &str, takes: u64| {
        let handler = move |_| async move {
            tokio::time::sleep(Duration::from_secs(takes)).await;
            Ok::<_, Infallible>(Vec::new())
        };
        operation.run(&caller, id, b"", handler).await.is_ok()
    };
    tokio::time::pause();
    for (takes, warnings) in [(59, 0), (61, 1)] {
        lines.take();
        let [one, other] = [1, 2].map(|number| format!("{takes} {number}"));
        assert_eq!(tokio::join!(run(&one, takes), run(&other, 0)), (true, true));
        assert_eq!(lines.count("for its turn"), warnings, "{takes}");
    }
    tokio::time::resume();

    // Keys that protect nothing. Paths that are not in the descriptors are the callers' own texts.
    for (policy, level) in [(UnprotectedKeyPolicy::PassThrough, "WARN"), (UnprotectedKeyPolicy::Refuse, "INFO")] {
        let builder = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(MemoryStore::new());
        let layer = builder.on_unprotected_key(policy).build().expect("a layer");
        let wrapped = layer.layer(shop::server(Counting::default()));
        let mut client = ShopClient::new(shop::serve_in_memory(Routes::new(wrapped)).await);
        let around_all = layer.layer(Routes::new(shop::server(Counting::default())));
        lines.take();
        for seen in [[level, "GetOrder", "opt the procedure in"].as_slice(), &[]] {
            let get = client.get_order(shop::request(secret, None, Some(key))).await;
            assert_eq!(get.is_ok(), policy == UnprotectedKeyPolicy::PassThrough);
            let labels = [("procedure", "/shop.v1.Shop/GetOrder")];
            assert_eq!(seen.is_empty(), lines.count("GetOrder") == 0);
            check("a key on a procedure", "idempotency_unprotected_keys_total", &labels, seen);
        }
        for number in 0..3 {
            let request = http::Request::post(format!("/elsewhere.v1.Service/Number{number}"))
                .header("content-type", "application/grpc")
                .header("idempotency-key", key.to_string())
                .body(tonic::body::Body::empty());
            around_all.clone().oneshot(request.expect("a request")).await.expect("an answer");
            let words = [level, "Number0", "descriptors"];
            let seen = if number == 0 { words.as_slice() } else { &[] };
            check("a key elsewhere", "idempotency_unprotected_keys_total", &[("procedure", "other")], seen);
        }
        client.get_order(shop::request(secret, None, None)).await.expect("a call without a key");
        assert_eq!(counted(&snapshotter, "idempotency_unprotected_keys_total", &[]), 0);
        assert_eq!(lines.take(), "");
    }

    // A caller that the application's resolver does not know how to name.
    let layer = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(MemoryStore::new()).caller_resolver(
        move |_: &http::HeaderMap, _: &http::Extensions| {
            Ok(Some(Caller::new(UserId::from_text(&user.to_string().repeat(10))?)))
        },
    );
    let wrapped = layer.build().expect("a layer").layer(shop::server(Counting::default()));
    let mut client = ShopClient::new(shop::serve_in_memory(Routes::new(wrapped)).await);
    lines.take();
    client.create_order(shop::request(secret, None, Some(key))).await.expect_err("refused");
    let labels = [("procedure", create), ("reason", "IDEMPOTENCY_CALLER_INVALID")];
    check("caller", "idempotency_rejected_total", &labels, &["ERROR", create, "from 1 to 255 bytes", "360"]);
}
