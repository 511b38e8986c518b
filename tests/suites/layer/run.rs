//! Operations that are no gRPC calls, on a store in memory. Those in transactions are in the suite of every driver.

use tonic_idempotency::{
    KeyId,
    policy::{Abandoned, Encoded, FinalErrors, KeyPolicy, ProcedureError, RebuildRequest, Reconciliation},
    proto::v1::Work,
    run::{
        self, Call, Codec, DeadLetter, HandlerError, Json, Operation, OperationError, Outcome, Prost, RunError,
        Settlement,
    },
};

use crate::operations::Operations;
use crate::prelude::*;

pub(crate) const CHARGE: &str = "billing.v1/ChargeOrder";

/// An error of the application's own.
#[derive(Debug, PartialEq)]
pub(crate) enum ChargeError {
    CardExpired,
    Network,
}

impl HandlerError for ChargeError {
    fn to_final(&self, _codes: &FinalErrors) -> Option<Vec<u8>> {
        (*self == Self::CardExpired).then(|| b"card expired".to_vec())
    }

    fn from_final(stored: &[u8]) -> Option<Self> {
        (stored == b"card expired").then_some(Self::CardExpired)
    }
}

pub(crate) type Charged<T> = Result<Outcome<T>, RunError<ChargeError>>;

pub(crate) fn layer(store: impl Store, change: impl FnOnce(ProcedureBuilder) -> ProcedureBuilder) -> IdempotencyLayer {
    let charge = change(Procedure::operation(CHARGE));
    let builder = IdempotencyLayer::builder(DescriptorPool::global()).store(store).procedure(charge);
    builder.build().expect("an operation")
}

pub(crate) fn bytes(change: impl FnOnce(ProcedureBuilder) -> ProcedureBuilder) -> Operation<run::Bytes> {
    layer(MemoryStore::new(), change).operation(CHARGE).expect("it is declared")
}

pub(crate) fn billing() -> Caller {
    Caller::new(tonic_idempotency::UserId::from_text("billing").expect("an id"))
}

pub(crate) async fn charge<C: Codec>(
    operation: &Operation<C>,
    key: &str,
    request: &C::Request,
    response: C::Response,
) -> Charged<C::Response> {
    operation.run(&billing(), key, request, |_| async { Ok(response) }).await
}

/// A handler that is not reached.
pub(crate) async fn never<T>(_call: Call) -> Result<T, ChargeError> {
    panic!("it must not run")
}

pub(crate) fn reason<T: std::fmt::Debug>(charged: Charged<T>) -> Reason {
    match charged {
        Err(RunError::Refused { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

/// Runs an operation with a request, again with the same one and another response, and with other requests.
async fn are_run_once_and_compared<C: Codec<Response: PartialEq + std::fmt::Debug + Clone>>(
    operation: Operation<C>,
    [request, same]: [&C::Request; 2],
    others: &[&C::Request],
    [first, other]: [C::Response; 2],
) {
    let ran = charge(&operation, C::NAME, request, first.clone()).await;
    assert_eq!(ran.expect("it runs"), Outcome::First(first.clone()));
    let again = charge(&operation, C::NAME, same, other.clone()).await;
    assert_eq!(again.expect("a replay"), Outcome::Replayed(first));
    for changed in others {
        assert_eq!(reason(charge(&operation, C::NAME, changed, other.clone()).await), Reason::KeyReused);
    }
}

#[tokio::test]
async fn with_each_codec_are_run_once_and_compared() {
    let layer = layer(MemoryStore::new(), |it| it);
    let operation: Operation<run::Bytes> = layer.operation(CHARGE).expect("it is declared");
    are_run_once_and_compared(operation, [b"a", b"a"], &[b"b"], [b"first".to_vec(), b"other".to_vec()]).await;

    let operation: Operation<Prost<prost_types::Duration, prost_types::Timestamp>> =
        layer.operation(CHARGE).expect("it is declared");
    let [one, two] = [1, 2].map(|seconds| prost_types::Duration { seconds, nanos: 0 });
    let responses = [1, 2].map(|seconds| prost_types::Timestamp { seconds, nanos: 0 });
    are_run_once_and_compared(operation, [&one, &one], &[&two], responses).await;

    let operation: Operation<Json<serde_json::Value, Vec<f64>>> = layer.operation(CHARGE).expect("it is declared");
    let [first, same, less, reversed] = [
        r#"{"a": 1, "b": [1.50, 9007199254740992], "€": "\u0041"}"#,
        r#"{"€":"A","b":[15e-1,9007199254740992],"a":1.0}"#,
        r#"{"a": 1, "b": [1.5, 9007199254740992]}"#,
        r#"{"a": 1, "b": [9007199254740992, 1.5], "€": "A"}"#,
    ]
    .map(|text| serde_json::from_str(text).expect("JSON"));
    are_run_once_and_compared(operation, [&first, &same], &[&less, &reversed], [vec![0.1], vec![]]).await;
}

/// Nothing runs, and the error names what is wrong.
#[tokio::test]
async fn that_cannot_be_hashed_or_read_are_refused() {
    let layer = layer(MemoryStore::new(), |it| it);
    let json: Operation<Json<serde_json::Value, u8>> = layer.operation(CHARGE).expect("it is declared");
    let float: Operation<Json<f64, u8>> = layer.operation(CHARGE).expect("it is declared");
    let error: Charged<u8> = float.run(&billing(), "1", &f64::NAN, never).await;
    assert!(matches!(error, Err(RunError::Malformed(_))), "{error:?}");
    let error: Charged<u8> = float.receive(&billing(), |_| "1", b"12 EUR", |call, _| never(call)).await;
    assert!(matches!(error, Err(RunError::Malformed(_))), "{error:?}");
    let empty = json.run(&billing(), "", &1.into(), never).await;
    assert_eq!(Settlement::of(&empty), Settlement::DeadLetter(DeadLetter::IdInvalid));
    assert_eq!(reason(empty), Reason::KeyInvalid);

    // A response of another codec.
    assert!(!charge(&json, "2", &1.into(), 7).await.expect("it runs").is_replay());
    let bytes: Operation<run::Bytes> = layer.operation(CHARGE).expect("it is declared");
    let error: Charged<Vec<u8>> = bytes.run(&billing(), "2", b"1", never).await;
    let error = error.expect_err("it is not of this codec");
    assert!(
        matches!(error, RunError::Unreadable { is_success: true, .. }) && error.to_string().contains("\"json\""),
        "{error}"
    );
}

/// With parts of each kind.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize, serde::Serialize)]
struct Reading {
    average: f64,
    by_day: std::collections::BTreeMap<String, (u8, Option<f32>)>,
    unit: Option<Unit>,
}

#[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
enum Unit {
    Kelvin,
    Scaled(Vec<f64>),
    Shifted { by: f64 },
}

/// JSON has neither NaN nor infinities. A request with one is refused, and so is the response of a transaction; that of a reserved operation
/// is not stored.
#[tokio::test]
async fn with_numbers_that_json_does_not_have_name_their_place() {
    let readings = [
        (Reading { average: f64::NAN, ..Reading::default() }, "average: JSON has no NaN"),
        (
            Reading { by_day: [("mon".to_owned(), (1, Some(f32::INFINITY)))].into(), ..Reading::default() },
            "by_day[\"mon\"][1]: ",
        ),
        (Reading { unit: Some(Unit::Scaled(vec![1.0, f64::NEG_INFINITY])), ..Reading::default() }, "unit.Scaled[1]: "),
        (Reading { unit: Some(Unit::Shifted { by: f64::NAN }), ..Reading::default() }, "unit.by: "),
    ];
    let database = Database::new().await;
    let transactional = layer(postgres(database.pool(2)), |it| it.mode(Mode::Transactional));
    let transactional: Operation<Json<Reading, Reading>> = transactional.operation(CHARGE).expect("it is declared");
    let reserved = layer(MemoryStore::new(), |it| it);
    let reserved: Operation<Json<Reading, Reading>> = reserved.operation(CHARGE).expect("it is declared");
    let fine = Reading { unit: Some(Unit::Kelvin), by_day: [(String::new(), (0, None))].into(), ..Reading::default() };
    for (key, (reading, place)) in readings.into_iter().enumerate() {
        let key = &key.to_string();
        let request: Charged<Reading> = reserved.run(&billing(), key, &reading, never).await;
        let error = request.expect_err("it has no hash");
        assert!(matches!(error, RunError::Malformed(_)) && error.to_string().contains(place), "{error}");

        let rolled_back = charge(&transactional, key, &fine, reading.clone()).await.expect_err("it is not stored");
        assert!(
            matches!(rolled_back, RunError::Response(_)) && rolled_back.to_string().contains(place),
            "{rolled_back}"
        );
        let again = charge(&transactional, key, &fine, fine.clone()).await;
        assert_eq!(again.expect("its key is free"), Outcome::First(fine.clone()));

        assert!(!charge(&reserved, key, &fine, reading).await.expect("it runs").is_replay());
        assert_eq!(reason(charge(&reserved, key, &fine, fine.clone()).await), Reason::NotStored);
    }
}

#[tokio::test]
async fn that_are_not_declared_or_cannot_be_are_refused_when_the_program_starts() {
    let layer = layer(MemoryStore::new(), |it| it);
    let undeclared = layer.operation::<run::Bytes>("billing.v1/Refund").expect_err("it is not declared");
    assert!(matches!(&undeclared, OperationError::Undeclared { operation } if operation == "billing.v1/Refund"));
    let without = IdempotencyLayer::builder([]).store(MemoryStore::new()).procedure(Procedure::operation(CHARGE));
    let without = without.build().expect("an operation");
    let unknown = without.operation::<Prost<prost_types::Duration, ()>>(CHARGE).expect_err("the message is not known");
    assert!(unknown.to_string().contains("descriptors"), "{unknown}");
    let without = IdempotencyLayer::builder([]).procedure(Procedure::operation(CHARGE)).build().expect("a layer");
    assert!(matches!(without.operation::<run::Bytes>(CHARGE), Err(OperationError::NoStore { .. })));
    for (of_a_service, name) in [
        (Procedure::operation(CHARGE).ignore("time"), "ignore"),
        (Procedure::operation(CHARGE).key_format(KeyFormat::Any), "key_format"),
        (Procedure::operation(CHARGE).key_policy(KeyPolicy::Required), "key_policy"),
        (Procedure::operation(CHARGE).on_no_user(UserPolicy::Reject), "on_no_user"),
    ] {
        let error = IdempotencyLayer::builder([]).procedure(of_a_service).build().expect_err(name);
        let BuildError::Procedure(ProcedureError::NotOfAnOperation { setting, .. }) = error else { panic!("{error}") };
        assert_eq!(setting, name);
    }
}

#[tokio::test]
async fn that_fail_free_their_key_and_those_with_a_final_error_keep_it() {
    let operation = bytes(|it| it);
    let fail = async |error: fn() -> ChargeError| {
        operation.run(&billing(), "1", b"", move |_| async move { Err(error()) }).await
    };
    for (error, is_final) in [(ChargeError::Network as ChargeError, false), (ChargeError::CardExpired, true)] {
        let make = if is_final { || ChargeError::CardExpired } else { || ChargeError::Network };
        match fail(make).await {
            Err(RunError::Failed { error: seen, is_final: kept }) => assert_eq!((seen, kept), (error, is_final)),
            other => panic!("{other:?}"),
        }
    }
    let again: Charged<Vec<u8>> = charge(&operation, "1", b"", Vec::new()).await;
    assert!(matches!(again, Err(RunError::Failed { error: ChargeError::CardExpired, is_final: true })), "{again:?}");
}

#[tokio::test]
async fn that_panic_free_their_key_unless_their_effect_has_happened() {
    let operation = bytes(|it| it);
    let panics: Charged<Vec<u8>> = operation.run(&billing(), "1", b"", |_| async { panic!("as it was told") }).await;
    assert!(matches!(panics, Err(RunError::Panicked)), "{panics:?}");
    let abandoned: Charged<Vec<u8>> = operation
        .run(&billing(), "1", b"", |call| async move {
            call.execution().effect_committed();
            Err(ChargeError::Network)
        })
        .await;
    assert!(matches!(abandoned, Err(RunError::Failed { is_final: false, .. })), "{abandoned:?}");
    assert_eq!(reason(charge(&operation, "1", b"", Vec::new()).await), Reason::OutcomeUnknown);
}

/// The handler outlives the consumer that has dropped its future, and the shutdown waits for it.
#[tokio::test]
async fn go_on_when_their_future_is_dropped_and_end_before_the_shutdown() {
    let layer = layer(MemoryStore::new(), |it| it);
    let operation: Operation<run::Bytes> = layer.operation(CHARGE).expect("it is declared");
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let (waits, running) = (Arc::clone(&gate), operation.clone());
    let (begins, begun) = tokio::sync::oneshot::channel();
    let task = tokio::spawn(async move {
        let late = |_| async move {
            begins.send(()).expect("somebody waits");
            waits.acquire().await.expect("it is not closed").forget();
            Ok::<_, Infallible>(b"late".to_vec())
        };
        running.run(&billing(), "1", b"", late).await
    });
    begun.await.expect("it runs");
    assert_eq!(reason(charge(&operation, "1", b"", Vec::new()).await), Reason::InProgress);
    task.abort();
    let shutdown = tokio::spawn({
        let layer = layer.clone();
        async move { layer.shutdown(Duration::from_secs(60)).await }
    });
    until("it shuts down", async || charge(&operation, "2", b"", Vec::new()).await.is_err()).await;
    assert_eq!(reason(charge(&operation, "3", b"", Vec::new()).await), Reason::ShuttingDown);
    gate.add_permits(1);
    assert!(shutdown.await.expect("no panic").unfinished.is_empty());
}

/// One operation and its key know no other operation, no gRPC call, and no other caller.
#[tokio::test]
async fn of_other_callers_and_other_names_are_other_operations() {
    let store = MemoryStore::new();
    let both = IdempotencyLayer::builder([])
        .store(store)
        .procedure(Procedure::operation(CHARGE))
        .procedure(Procedure::operation("billing.v1/Refund"))
        .build()
        .expect("operations");
    let operation: Operation<run::Bytes> = both.operation(CHARGE).expect("it is declared");
    let refund: Operation<run::Bytes> = both.operation("billing.v1/Refund").expect("it is declared");
    assert!(!charge(&operation, "1", b"", Vec::new()).await.expect("it runs").is_replay());
    let other = Caller::new(tonic_idempotency::UserId::from_text("another").expect("an id"));
    let of_other = operation.run(&other, "1", b"", |_| async { Ok::<_, Infallible>(Vec::new()) }).await;
    assert!(!of_other.expect("it runs").is_replay());
    // Both get one event, and each has it once.
    for is_replay in [false, true] {
        assert_eq!(charge(&refund, "1", b"", Vec::new()).await.expect("it runs").is_replay(), is_replay);
    }
}

/// Their outcome is unknown: the reconciler knows, asked by the next delivery or in the background.
#[tokio::test]
async fn that_were_abandoned_are_reconciled() {
    let reconcile = |abandoned: Abandoned| async move {
        assert_eq!(abandoned.procedure, format!("/{CHARGE}"));
        // The background knows only the hashes of the message.
        assert_eq!(abandoned.request, abandoned.caller.map(|_| Bytes::from_static(b"message")));
        Ok(Reconciliation::Completed(Bytes::from_static(b"found")))
    };
    let declared = Procedure::operation(CHARGE).on_lease_ended(LeasePolicy::Reconcile);
    let builder = IdempotencyLayer::builder([]).store(MemoryStore::new()).procedure(declared);
    let layer = builder.reconciler(CHARGE, reconcile).build().expect("an operation");
    let operation: Operation<run::Bytes> = layer.operation(CHARGE).expect("it is declared");
    let abandon = |call: Call| async move {
        call.execution().effect_committed();
        Err(ChargeError::Network)
    };
    for (key, in_background) in [("1", false), ("2", true)] {
        let abandon = move |call, _| abandon(call);
        operation.receive(&billing(), |_| key, b"message", abandon).await.expect_err("it fails");
        if in_background {
            let recovered = layer.recovery().recover().await.expect("the store can be asked");
            assert_eq!(recovered.completed, 1, "{recovered:?}");
        }
        let ended: Charged<Vec<u8>> = operation.receive(&billing(), |_| key, b"message", |call, _| never(call)).await;
        assert_eq!(ended.expect("it is known"), Outcome::Replayed(b"found".to_vec()), "{key}");
    }
}

/// As a call's: it ends the operation, and as much of it is kept as fits.
#[tokio::test]
async fn that_end_with_an_error_that_is_too_large_do_not_run_again() {
    let declared = Procedure::operation(CHARGE).final_errors([Code::NotFound]);
    let builder = IdempotencyLayer::builder([]).store(MemoryStore::new()).procedure(declared).max_response_bytes(10);
    let operation: Operation<run::Bytes> = builder.build().expect("a layer").operation(CHARGE).expect("it is declared");
    operation
        .run(&billing(), "1", b"", |_| async { Err::<Vec<u8>, _>(ChargeError::CardExpired) })
        .await
        .expect_err("it fails");
    let again = charge(&operation, "1", b"", Vec::new()).await.expect_err("it has ended");
    assert!(matches!(again, RunError::Unreadable { is_success: false, .. }), "{again:?}");
    assert!(again.to_string().contains("too large"), "{again}");

    let fails = |_| async { Err::<Vec<u8>, _>(tonic::Status::not_found("größer als 10 Bytes")) };
    for (attempt, says) in [("the first", "größer als 10 Bytes"), ("a replay", "größ")] {
        let ended = operation.run(&billing(), "2", b"", fails).await;
        let Err(RunError::Failed { error, is_final: true }) = ended else { panic!("{attempt}: {ended:?}") };
        assert_eq!((error.code(), error.message()), (Code::NotFound, says), "{attempt}");
    }
}

/// Its id is in the record, whether the handler or the reconciler has made the response: so its status is known, and it can be rebuilt.
#[tokio::test]
async fn that_create_a_resource_report_its_status() {
    let (store, user, key) = (MemoryStore::new(), Uuid::new_v4(), Uuid::new_v4());
    let reply = |id: &str| {
        let order = Order { id: id.to_owned(), name: "a lamp".to_owned() };
        CreateOrderReply { order: Some(order), key: String::new() }
    };
    for (case, keyed, rebuilt) in
        [("made", key, false), ("found", Uuid::new_v4(), false), ("rebuilt", Uuid::new_v4(), true)]
    {
        let id = Uuid::new_v4();
        let shop = Shop::with(|builder| {
            let declared = Procedure::operation(CHARGE).creates("order", "shop.v1.CreateOrderReply.order.id");
            let found = reply(&id.to_string());
            let reconcile = move |_: Abandoned| std::future::ready(Ok(Reconciliation::completed(&found)));
            let builder = builder.store(store.clone()).reconciler(CHARGE, reconcile);
            let rebuild = move |request: RebuildRequest| async move {
                Ok(Encoded(reply(&request.resource.id.to_text()).encode_to_vec().into()))
            };
            let builder = if rebuilt { builder.rebuild(CHARGE, rebuild) } else { builder };
            builder.procedure(declared.on_lease_ended(LeasePolicy::Reconcile))
        });
        let stored = *KeyId::of_operation(CHARGE, &keyed.to_string()).as_uuid();
        let shop = Shop { user: Some(user), ..shop.await }.with_key(Some(stored));
        let operation: Operation<Prost<prost_types::Duration, CreateOrderReply>> =
            shop.layer.operation(CHARGE).expect("it is declared");
        let handler = move |call: Call| async move {
            match case {
                "found" => {
                    call.execution().effect_committed();
                    Err(ChargeError::Network)
                }
                _ => Ok(reply(&id.to_string())),
            }
        };
        let caller = Caller::new(tonic_idempotency::UserId::new(user));
        let run = async || operation.run(&caller, &keyed.to_string(), &prost_types::Duration::default(), handler).await;
        assert_eq!(run().await.is_err(), case == "found");
        assert_eq!(run().await.expect(case), Outcome::Replayed(reply(&id.to_string())));
        let known = Operations::of(&shop).await;
        assert_eq!(known.get().await.expect(case).work(), Work::Processing, "{case}");
        store.set_status(id, OutboxStatus::Completed);
        let known = known.get().await.expect(case);
        assert_eq!((known.work(), known.resource.map(|it| it.id)), (Work::Completed, Some(id.to_string())), "{case}");
    }
    for field in ["id", "shop.v1.Nothing.id", "shop.v1.CreateOrderReply"] {
        let builder = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(MemoryStore::new());
        let error = builder.procedure(Procedure::operation(CHARGE).creates("order", field)).build().expect_err(field);
        assert!(matches!(error, BuildError::Procedure(ProcedureError::NoMessage { .. })), "{error}");
    }
}

/// They run once, however often the handlers around them do.
#[tokio::test]
async fn inside_of_other_calls_run_once_with_keys_of_their_own() {
    let both = IdempotencyLayer::builder([])
        .store(MemoryStore::new())
        .procedure(Procedure::operation(CHARGE))
        .procedure(Procedure::operation("billing.v1/Ship"))
        .build()
        .expect("operations");
    let (outer, inner): (Operation<run::Bytes>, Operation<run::Bytes>) =
        (both.operation(CHARGE).expect("it is declared"), both.operation("billing.v1/Ship").expect("it is declared"));
    let ships = Arc::new(AtomicUsize::new(0));
    for (attempt, key) in [(1, "1"), (2, "1"), (3, "2")] {
        let (ship, shipped) = (inner.clone(), Arc::clone(&ships));
        let handler = move |call: Call| async move {
            for name in ["lamp", "chair"] {
                let shipped = Arc::clone(&shipped);
                let handler = |call: Call| async move {
                    assert_eq!(*call.caller(), billing());
                    shipped.fetch_add(1, Ordering::SeqCst);
                    Ok::<_, Infallible>(Vec::new())
                };
                let ended = ship.run_within(&call.execution(), name, name.as_bytes(), handler).await;
                assert_eq!(ended.expect("it runs").is_replay(), attempt == 2, "{name}");
            }
            if attempt == 1 { Err(ChargeError::Network) } else { Ok(Vec::new()) }
        };
        assert_eq!(outer.run(&billing(), key, b"", handler).await.is_err(), attempt == 1);
    }
    assert_eq!(ships.load(Ordering::SeqCst), 4);
    let without_key = tonic_idempotency::Execution::default();
    assert_eq!(reason(inner.run_within(&without_key, "lamp", b"", never).await), Reason::KeyRequired);
}

/// Whichever of them the store takes first: the other learns at once that its key is in use for something else.
#[tokio::test]
async fn that_begin_together_with_one_key_and_different_requests_are_refused_but_for_one() {
    let database = Database::new().await;
    let operation: Operation<run::Bytes> =
        layer(postgres(database.pool(4)), |it| it).operation(CHARGE).expect("it is declared");
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let run = |key: &'static str, request: &'static [u8]| {
        let (operation, gate) = (operation.clone(), Arc::clone(&gate));
        async move {
            let handler = move |_| async move {
                gate.acquire().await.expect("it is not closed").forget();
                Ok::<_, ChargeError>(request.to_vec())
            };
            operation.run(&billing(), key, request, handler).await
        }
    };
    let mut runs = JoinSet::new();
    for (key, request) in [("0", b"a"), ("1", b"a"), ("1", b"b"), ("2", b"a")] {
        runs.spawn(run(key, request));
    }
    // The handlers of the others are held.
    let refused = runs.join_next().await.expect("it ends").expect("no panic");
    assert_eq!(reason(refused), Reason::KeyReused);
    gate.add_permits(3);
    assert!(runs.join_all().await.iter().all(Result::is_ok));
}
