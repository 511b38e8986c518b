//! Messages: which of them are the same, and the word on each to its queue.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{SystemTime, UNIX_EPOCH},
};

use tonic::service::Routes;
use tonic_idempotency::{
    KeyId,
    policy::ExpiredKeyPolicy,
    run::{Call, Codec, DeadLetter, Json, Operation, Outcome, Prost, RunError, Settlement},
    store::StoreError,
    testing::Harness,
};
use tonic_types::ErrorDetails;
use uuid::Builder;

use crate::{
    prelude::*,
    run::{CHARGE, ChargeError, Charged, billing, bytes, charge, layer, never, reason},
};

/// An order, as far as the first version of the program knows it.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize, serde::Serialize)]
struct OrderV1 {
    id: String,
    cents: u64,
}

#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize, serde::Serialize)]
struct OrderV2 {
    id: String,
    coupon: Option<String>,
    cents: u64,
}

async fn receive<C: Codec>(operation: &Operation<C>, bytes: &[u8], response: C::Response) -> Charged<C::Response> {
    operation.receive(&billing(), |_| "order 1", bytes, |_, _| async { Ok(response) }).await
}

/// The same bytes are the same message to each version of the program, also if it reads other fields of them; and so are other bytes of the
/// same value to the same version.
#[tokio::test]
async fn of_the_same_bytes_are_the_same_after_a_deployment() {
    let layer = layer(MemoryStore::new(), |it| it);
    let v1: Operation<Json<OrderV1, u8>> = layer.operation(CHARGE).expect("it is declared");
    let v2: Operation<Json<OrderV2, u8>> = layer.operation(CHARGE).expect("it is declared");
    let bytes = br#"{"id": "a", "coupon": "spring", "cents": 9007199254740993, "attempt": 1}"#;
    assert_eq!(receive(&v1, bytes, 1).await.expect("it runs"), Outcome::First(1));
    assert_eq!(receive(&v2, bytes, 2).await.expect("the same bytes"), Outcome::Replayed(1));
    let attempt = br#"{"cents": 9007199254740993, "id": "a", "attempt": 2}"#;
    assert_eq!(receive(&v1, attempt, 2).await.expect("the same value"), Outcome::Replayed(1));
    let other = br#"{"id": "a", "cents": 9007199254740992}"#;
    let reused = receive(&v1, other, 2).await;
    assert_eq!(Settlement::of(&reused), Settlement::DeadLetter(DeadLetter::IdReused));
    let unreadable: Charged<u8> = v1.receive(&billing(), |order| order.id.clone(), b"{}", |call, _| never(call)).await;
    assert_eq!(Settlement::of(&unreadable), Settlement::DeadLetter(DeadLetter::Malformed));

    // A field that the first version does not know, in front of one that it knows.
    let empty: Operation<Prost<Nothing, ()>> = layer.operation(CHARGE).expect("it is declared");
    let full: Operation<Prost<prost_types::Duration, ()>> = layer.operation(CHARGE).expect("it is declared");
    let run = async |is_old: bool, bytes: &[u8]| match is_old {
        true => empty.receive(&billing(), |_| "2", bytes, |_, _| async { Ok::<_, ChargeError>(()) }).await,
        false => full.receive(&billing(), |_| "2", bytes, |_, _| async { Ok::<_, ChargeError>(()) }).await,
    };
    let bytes = [0x10, 0x07, 0x08, 0x05];
    assert!(!run(true, &bytes).await.expect("it runs").is_replay());
    assert!(run(false, &bytes).await.expect("the same bytes").is_replay());
    assert_eq!(reason(run(false, &[0x08, 0x05]).await), Reason::KeyReused);
}

/// An empty message to one version, and a duration to another.
#[derive(Clone, PartialEq, prost::Message)]
struct Nothing {}

impl prost::Name for Nothing {
    const NAME: &'static str = "Empty";
    const PACKAGE: &'static str = "google.protobuf";
}

/// The name and the id suffice to find the record.
#[tokio::test]
async fn have_any_id_and_a_key_that_is_made_of_it_and_of_their_name() {
    let operation = bytes(|it| it);
    let long = "k".repeat(100_000);
    for id in ["evt_17", "Rechnung März.pdf", "\0", " ", &long, "019a0e7c-6a1f-7000-8000-000000000001"] {
        let expected = KeyId::of_operation(CHARGE, id);
        let text = id.to_owned();
        let handler = move |call: Call| async move {
            assert_eq!((call.key().as_str(), call.key().id()), (&*text, expected));
            Ok::<_, Infallible>(Vec::new())
        };
        assert!(!operation.run(&billing(), id, b"", handler).await.expect("it runs").is_replay());
        let again: Charged<Vec<u8>> = operation.run(&billing(), id, b"", never).await;
        assert!(again.expect("it has run").is_replay());
    }
    let upper = "019A0E7C-6A1F-7000-8000-000000000001";
    assert!(charge(&operation, upper, b"", Vec::new()).await.expect("the same id").is_replay());
}

/// The time of its id counts, as that of a call's key does.
#[tokio::test]
async fn whose_ids_have_expired_or_are_ahead_do_not_run() {
    let operation = bytes(|it| it.expired_keys(ExpiredKeyPolicy::Refuse).retention(Duration::from_secs(60)));
    let id = |ahead: i64| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis();
        let time = u64::try_from(now).expect("a time").saturating_add_signed(1000 * ahead);
        Builder::from_unix_timestamp_millis(time, &[7; 10]).into_uuid().to_string()
    };
    for (ahead, settlement) in [
        (0, Settlement::Acknowledge),
        (-1000, Settlement::DeadLetter(DeadLetter::IdExpired)),
        (1000, Settlement::Redeliver { after: Duration::from_secs(60) }),
    ] {
        let ended: Charged<Vec<u8>> = charge(&operation, &id(ahead), b"", Vec::new()).await;
        assert_eq!(Settlement::of(&ended), settlement, "{ended:?}");
    }
}

/// The reasons for which an operation may be refused, beside an empty id.
const REFUSALS: [&str; 16] = [
    "CALLER_INVALID",
    "CONFLICT",
    "HANDLER_TIMEOUT",
    "IN_PROGRESS",
    "KEY_EXPIRED",
    "KEY_REQUIRED",
    "KEY_REUSED",
    "NOT_COMMITTED",
    "NO_SCOPE",
    "OUTCOME_UNKNOWN",
    "OVERLOADED",
    "RESPONSE_NOT_STORED",
    "SHUTTING_DOWN",
    "STORE_FAILED",
    "STORE_UNAVAILABLE",
    "TOO_MANY_RECORDS",
];

/// The reasons for which only a gRPC call may be refused.
const OF_CALLS: [&str; 5] = ["KEY_UNSUPPORTED", "NO_USER", "REQUEST_MALFORMED", "REQUEST_TIMEOUT", "REQUEST_TOO_LARGE"];

/// The table of docs/consumers.md: what a message ends with, and what its queue is told.
#[tokio::test]
async fn are_settled_as_the_page_says() {
    let page = include_str!("../../../docs/consumers.md");
    let rows = page.lines().skip_while(|line| !line.starts_with("| ends with |")).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    let mut told = BTreeMap::new();
    for row in rows {
        let [_, ends, settlement, _] = row.split('|').collect::<Vec<_>>()[..] else { panic!("{row}") };
        for end in ends.split('`').skip(1).step_by(2) {
            assert_eq!(told.insert(end.to_owned(), settlement.trim().replace('`', "")), None, "{end} is there twice");
        }
    }

    let later = Status::unavailable("later");
    let gone = || Status::not_found("it is gone");
    let cases: [(&str, Charged<u8>); 12] = [
        ("Ok", Ok(Outcome::First(1))),
        ("Failed", Err(RunError::Failed { error: ChargeError::Network, is_final: false })),
        ("Failed { is_final: true }", Err(RunError::Failed { error: ChargeError::CardExpired, is_final: true })),
        ("Panicked", Err(RunError::Panicked)),
        ("Response", Err(RunError::Response("NaN".into()))),
        ("Malformed", Err(RunError::Malformed("no JSON".into()))),
        (
            "Unreadable { is_success: true }",
            Err(RunError::Unreadable { error: "another codec".into(), is_success: true }),
        ),
        ("Unreadable", Err(RunError::Unreadable { error: "too large".into(), is_success: false })),
        ("Withheld { is_success: true }", Err(RunError::Withheld { status: gone(), is_success: true })),
        ("Withheld", Err(RunError::Withheld { status: gone(), is_success: false })),
        ("Withheld { status: UNAVAILABLE }", Err(RunError::Withheld { status: later, is_success: true })),
        ("KEY_INVALID", charge(&json(), "", &1, 1).await),
    ];
    let mut seen: BTreeMap<_, _> = cases.into_iter().map(|(end, ended)| (end.to_owned(), of(&ended))).collect();
    for short in REFUSALS {
        let harness = Harness::with_layer(
            MemoryStore::new(),
            |store| Ok::<_, BuildError>(layer(store, |it| it)),
            Routes::default(),
        );
        harness.refuse(format!("IDEMPOTENCY_{short}").parse().expect("a reason"));
        let ended: Option<Charged<u8>> = harness.run::<Json<u8, u8>, _, _>(CHARGE, "1", &1, never).await;
        seen.insert(short.to_owned(), of(&ended.expect("an answer")));
    }
    assert_eq!(told, seen);
    let reasons: BTreeSet<_> =
        REFUSALS.iter().chain(&OF_CALLS).chain(&["KEY_INVALID"]).map(|it| it.to_string()).collect();
    let all: BTreeSet<_> = Reason::ALL.iter().map(|reason| reason.as_str().replace("IDEMPOTENCY_", "")).collect();
    let apart: Vec<_> = reasons.symmetric_difference(&all).collect();
    assert!(apart.is_empty(), "on one side only: {apart:?}");
}

fn json() -> Operation<Json<u8, u8>> {
    layer(MemoryStore::new(), |it| it).operation(CHARGE).expect("it is declared")
}

/// A settlement as the page has it.
fn of<T>(ended: &Charged<T>) -> String {
    match Settlement::of(ended) {
        Settlement::Acknowledge => "Acknowledge".to_owned(),
        Settlement::Redeliver { after } => format!("Redeliver after {after:?}"),
        Settlement::DeadLetter(cause) => format!("DeadLetter({cause:?})"),
    }
}

/// A queue, a webhook and a gRPC call around the operation are told the same. None hears of a key that is not its own.
#[tokio::test]
async fn tell_a_webhook_and_the_call_around_them_what_they_tell_a_queue() {
    let after = Duration::from_secs(7);
    let details = ErrorDetails::with_retry_info(Some(after));
    let later = Status::with_error_details(Code::Unavailable, "later", details);
    let withheld = RunError::Withheld { status: later, is_success: false };
    let operation = bytes(|it| it);
    charge(&operation, "1", b"a", Vec::new()).await.expect("it runs");
    let reused = charge(&operation, "1", b"b", Vec::new()).await.expect_err("another request");
    let failed = RunError::Failed { error: ChargeError::Network, is_final: false };
    let done: Charged<Vec<u8>> = Ok(Outcome::First(Vec::new()));
    assert_eq!(Settlement::of(&done).http_status(), 200);
    for (error, http, code, delay) in [
        (withheld, 503, Code::Unavailable, Some(after)),
        (failed, 503, Code::Unavailable, Some(Duration::from_secs(1))),
        (RunError::Malformed("no JSON".into()), 422, Code::FailedPrecondition, None),
        (reused, 422, Code::FailedPrecondition, None),
    ] {
        let ended: Charged<Vec<u8>> = Err(error);
        assert_eq!(Settlement::of(&ended).http_status(), http);
        let Err(error) = ended else { panic!("an error") };
        let says = error.to_string();
        let status = Status::from(error);
        let retry = status.get_details_retry_info().and_then(|info| info.retry_delay);
        assert_eq!((status.code(), status.message(), retry), (code, &*says, delay));
        assert!(status.get_details_error_info().is_none());
    }
}

/// `?` on any error, and its own words.
#[tokio::test]
async fn have_the_text_and_the_source_of_the_handlers_error() {
    type Any = Box<dyn std::error::Error + Send + Sync>;
    let operation = bytes(|it| it);
    let handler = |_| async {
        Err(StoreError::new(StoreErrorKind::Corrupt, "half a row"))?;
        Ok::<_, Any>(Vec::new())
    };
    let ended = operation.run(&billing(), "1", b"", handler).await;
    assert_eq!(Settlement::of(&ended), Settlement::Redeliver { after: Duration::from_secs(1) });
    let error = ended.expect_err("it fails");
    assert_eq!(error.to_string(), "the idempotency store returned invalid data");
    let source = std::error::Error::source(&error).map(ToString::to_string);
    assert_eq!(source.as_deref(), Some("half a row"));
}
