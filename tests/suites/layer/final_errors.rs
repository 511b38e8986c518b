//! Errors that end an operation, and those that free its key.

use tonic_idempotency::policy::FinalErrors;

use crate::build::{compile_with, method};
use crate::prelude::*;

/// Codes after which the same call may succeed later, and `Ok`, which is not an error.
pub(crate) const NEVER_FINAL: [Code; 8] = [
    Code::Aborted,
    Code::Cancelled,
    Code::DeadlineExceeded,
    Code::Internal,
    Code::Ok,
    Code::ResourceExhausted,
    Code::Unavailable,
    Code::Unknown,
];

const CANCEL: &str = "/shop.v1.Shop/Cancel";

/// Makes two codes final for each procedure.
fn some_are_final(builder: IdempotencyLayerBuilder) -> IdempotencyLayerBuilder {
    builder.adjust_procedures(|procedure| procedure.final_errors([Code::FailedPrecondition, Code::InvalidArgument]))
}

async fn shop_on(store: impl Store) -> Shop {
    Shop::with(|builder| some_are_final(builder).store(store)).await
}

/// The metadata of a status, without the headers of the connection.
fn metadata(status: &Status) -> HeaderMap {
    let mut headers = status.metadata().clone().into_headers();
    for name in ["content-type", "date", "idempotency-expires", "idempotency-outcome"] {
        headers.remove(name);
    }
    headers
}

/// Asserts that a status is the handler's, without a reason of the layer.
fn assert_shipped(status: &Status, case: &str) {
    let shipped = shop::shipped();
    assert_eq!((status.code(), status.message()), (shipped.code(), shipped.message()), "{case}");
    assert_eq!(status.details(), shipped.details(), "{case}");
    assert_eq!(Reason::of(status), None, "{case}");
    assert_eq!(status.get_details_error_info().expect("an ErrorInfo").domain, "shop.example", "{case}");
    assert!(status.get_details_precondition_failure().is_some(), "{case}");
}

async fn are_replayed_with_details_and_metadata(store: impl Store) {
    let shop = shop_on(store).await;
    let first = shop.create("fail for good").await.expect_err("it fails");
    assert_shipped(&first, "the first call");
    assert_eq!(metadata(&first), metadata(&shop::shipped()), "the first caller gets all of it");

    let mut replayed = metadata(&shop::shipped());
    replayed.remove("set-cookie");
    replayed.remove("authorization");
    replayed.insert("idempotent-replayed", http::HeaderValue::from_static("true"));
    for _ in 0..3 {
        let replay = shop.create("fail for good").await.expect_err("a replay");
        assert_shipped(&replay, "a replay");
        assert_eq!(metadata(&replay), replayed);
    }
    let notes: Vec<_> = replayed.get_all("shop-note").iter().collect();
    assert_eq!(notes, ["one", "two"]);
    let trace = shop.create("fail for good").await.expect_err("a replay");
    let trace = trace.metadata().get_bin("shop-trace-bin").expect("binary metadata").to_bytes().expect("bytes");
    assert_eq!(trace.as_ref(), b"\0trace\xff");
    assert_eq!((shop.handler.started(), shop.handler.finished()), (1, 0));

    // Like any record it refuses another request and another procedure.
    assert_refused(shop.create("a").await, Code::InvalidArgument, Reason::KeyReused);
    assert_refused(shop.touch("fail for good").await, Code::InvalidArgument, Reason::KeyReused);
    assert_eq!(shop.handler.started(), 1);
}
on_both_stores!(are_replayed_with_details_and_metadata);

async fn do_not_include_other_errors_which_free_the_key(store: impl Store) {
    let shop = shop_on(store).await;
    let mut started = 0;
    for code in (1..=16).map(Code::from_i32) {
        let name = format!("fail with {}", i32::from(code));
        let is_final = matches!(code, Code::FailedPrecondition | Code::InvalidArgument);
        let shop = shop.with_new_key();
        for attempt in 1..=2 {
            let status = shop.create(&name).await.expect_err("it fails");
            assert_eq!((status.code(), status.message()), (code, "as asked"));
            let replayed = status.metadata().contains_key("idempotent-replayed");
            assert_eq!(replayed, is_final && attempt == 2, "{code:?}");
            started += usize::from(!replayed);
            assert_eq!(shop.handler.started(), started, "{code:?}");
        }
        // A free key can be used for another request.
        match is_final {
            true => drop(shop.create("a").await.expect_err("another request")),
            false => {
                shop.create("a").await.expect("the key is free").assert("processing", false);
                started += 1;
            }
        }
    }
    assert_eq!(shop.create("panic").await.expect_err("it panics").code(), Code::Internal);
    shop.create("a").await.expect("the key is free").assert("processing", false);
}
on_both_stores!(do_not_include_other_errors_which_free_the_key);

/// The policies, a procedure, the name of its call, and whether its error is replayed: by default none is, and a procedure's own codes
/// replace the layer's.
#[tokio::test]
async fn come_from_the_proto_option_or_else_from_the_layers_policies() {
    let not_found = FinalErrors::new([Code::NotFound]).expect("it may be final");
    for (final_errors, path, name, is_replayed) in [
        (FinalErrors::NONE, CREATE, "fail for good", false),
        (not_found, CREATE, "fail", true),
        (not_found, CANCEL, "fail", false),
        (FinalErrors::NONE, CANCEL, "fail for good", true),
        (FinalErrors::NONE, CANCEL, "fail with 3", false),
        // After the effect, too.
        (FinalErrors::NONE, CANCEL, "effect and fail for good", true),
    ] {
        let policies = Policies { final_errors, ..Policies::default() };
        let shop = Shop::with(|builder| builder.store(MemoryStore::new()).policies(policies)).await;
        let call = async |name| if path == CREATE { shop.create(name).await } else { shop.cancel(name).await };
        for replayed in [false, is_replayed] {
            let status = call(name).await.expect_err("it fails");
            if name.ends_with("for good") {
                assert_shipped(&status, name);
            }
            assert_eq!(status.metadata().contains_key("idempotent-replayed"), replayed, "{path} {name}");
        }
        assert_eq!(shop.handler.started(), if is_replayed { 1 } else { 2 }, "{path} {name}");
        // The key is free unless the error has it.
        assert_eq!(call("a").await.is_err(), is_replayed, "{path} {name}");
    }
}

#[test]
fn of_the_proto_option_are_exactly_the_allowed_codes() {
    let pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET).expect("descriptors");
    let errors = pool.get_enum_by_name("idempotency.v1.FinalError").expect("the enum");
    let mut numbers: Vec<_> = errors.values().map(|value| value.number()).filter(|number| *number > 1).collect();
    numbers.sort_unstable();
    let may_be: Vec<_> = (0..=16).filter(|code| !NEVER_FINAL.contains(&Code::from_i32(*code))).collect();
    assert_eq!(numbers, may_be);

    let layer = |errors: &str| {
        let method = method("Request", &format!("final_errors: [{errors}]"));
        IdempotencyLayer::builder(compile(&method)).build().expect("a layer")
    };
    for value in errors.values().filter(|value| value.number() > 1) {
        let layer = layer(value.name());
        let policies = layer.procedures().next().expect("the procedure").policies();
        let expected = FinalErrors::new([Code::from_i32(value.number())]).expect("it may be final");
        assert_eq!(policies.final_errors, expected);
        // It has the name of the code.
        let name = value.name().trim_start_matches("FINAL_ERROR_").replace('_', "").to_lowercase();
        assert_eq!(format!("{:?}", Code::from_i32(value.number())).to_lowercase(), name);
    }
    let none =
        method("Request", "final_errors: [FINAL_ERROR_NONE]") + &method("Request", "").replace("Create", "Update");
    let final_errors = FinalErrors::new([Code::NotFound]).expect("it may be final");
    let policies = Policies { final_errors, ..Policies::default() };
    let none = IdempotencyLayer::builder(compile(&none)).policies(policies).build().expect("a layer");
    for procedure in none.procedures() {
        let says_none = procedure.path().ends_with("Create");
        assert_eq!(procedure.policies().final_errors.is_empty(), says_none, "{procedure:?}");
    }
}

#[test]
fn of_the_proto_option_are_refused_if_this_version_does_not_know_them() {
    let shipped = include_str!("../../../proto/idempotency/v1/procedure.proto");
    let known = "FINAL_ERROR_NONE = 1;";
    assert!(shipped.contains(known));
    let codes = NEVER_FINAL.map(i32::from).into_iter().filter(|code| *code > 1);
    // Written against another version of the file, or a modified one.
    let others = codes.chain([17, 99, -1]).map(|number| format!("{known} FINAL_ERROR_OTHER = {number};"));
    let others = others.map(|codes| ("FINAL_ERROR_NOT_FOUND, FINAL_ERROR_OTHER", Some(shipped.replace(known, &codes))));
    for (errors, other) in others.chain([("FINAL_ERROR_UNSPECIFIED", None)]) {
        let pool = compile_with(&method("Request", &format!("final_errors: [{errors}]")), other.as_deref());
        let message = error(IdempotencyLayer::builder(pool).store(MemoryStore::new()));
        assert!(message.contains("/written.v1.Service/Create") && message.contains("final_errors"), "{message}");
    }
}

/// The first error and its replay of a shop whose procedures are configured so.
async fn redacted(configure: fn(ProcedureBuilder) -> ProcedureBuilder) -> [Status; 2] {
    let build = |builder: IdempotencyLayerBuilder| {
        let all = move |procedure: ProcedureBuilder| configure(procedure.final_errors([Code::FailedPrecondition]));
        builder.store(MemoryStore::new()).adjust_procedures(all)
    };
    let shop = Shop::with(build).await;
    let first = shop.create("fail for good").await.expect_err("it fails");
    assert_shipped(&first, "the first caller gets all of it");
    let replay = shop.create("fail for good").await.expect_err("a replay");
    assert_eq!((replay.code(), shop.handler.started()), (Code::FailedPrecondition, 1));
    [first, replay]
}

#[tokio::test]
async fn are_stored_without_the_details_that_are_redacted() {
    let [first, replay] = redacted(|procedure| procedure.redact_error_details("google.rpc.ErrorInfo")).await;
    assert_eq!(replay.message(), first.message());
    let details = replay.get_error_details();
    assert!(details.error_info().is_none() && details.precondition_failure().is_some(), "{details:?}");

    let [_, replay] = redacted(|procedure| procedure.redact_error_details("*")).await;
    assert_eq!((replay.message(), replay.details()), ("", b"".as_slice()));
}

#[tokio::test]
async fn lose_their_details_and_metadata_if_they_are_too_large_to_store() {
    let build =
        |builder: IdempotencyLayerBuilder| some_are_final(builder).store(MemoryStore::new()).max_response_bytes(60);
    let shop = Shop::with(build).await;
    let first = shop.create("fail for good").await.expect_err("it fails");
    assert_shipped(&first, "the first caller gets all of it");
    let replay = shop.create("fail for good").await.expect_err("a replay");
    assert_eq!((replay.code(), replay.message()), (first.code(), first.message()));
    assert!(replay.details().is_empty() && !metadata(&replay).contains_key("shop-region"), "{replay:?}");
    assert_eq!(shop.handler.started(), 1, "it is still final");
}
