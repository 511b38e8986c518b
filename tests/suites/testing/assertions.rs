//! The assertions of a call, and their messages when they fail.

use std::{
    cell::RefCell,
    panic::{self, AssertUnwindSafe, Location, PanicHookInfo},
    sync::Once,
};

use tonic_idempotency::{IdempotencyKey, policy::KeyFormat, status::IdempotencyStatus, testing::Called};

use super::harness::{Orders, call, create, harness, order};
use super::prelude::*;

#[tokio::test]
async fn hold_for_a_first_call_its_replay_a_changed_request_and_a_failure() {
    let harness = Harness::new(FILE_DESCRIPTOR_SET, OrderServiceServer::new(Orders(create)));
    let mut orders = OrderServiceClient::new(harness.channel());
    let key = Uuid::new_v4();

    let first = harness.call(key, order("lamp"), |request| orders.create_order(request)).await;
    let first = first.executed_once().with_status(IdempotencyStatus::Completed).into_message();
    let retry = harness.call(key, order("lamp"), async |request| orders.create_order(request).await).await;
    assert_eq!(retry.replayed().with_status(IdempotencyStatus::Completed).into_message(), first);
    let other = harness.call(key, order("chair"), |request| orders.create_order(request)).await;
    assert_eq!(other.refused_with(Reason::KeyReused).runs(), 0);
    let failed = harness.call(Uuid::new_v4(), order("nothing"), |request| orders.create_order(request)).await;
    let failed = failed.failed_with(Code::NotFound).into_result().expect_err("it failed");
    assert_eq!(failed.message(), "no such item");
    assert_eq!(harness.runs(), 2);
}

#[tokio::test]
async fn hold_for_a_call_without_a_key_which_runs_each_time() {
    let (harness, mut orders) = harness(create, |procedure| procedure);
    for runs in 1..3 {
        let called = harness.call_without_key(order("lamp"), |request| orders.create_order(request)).await;
        assert_eq!(called.executed_once().reason(), None);
        assert_eq!(harness.runs(), runs);
    }
}

#[tokio::test]
async fn hold_for_the_replay_of_a_final_error() {
    let (harness, orders) = harness(create, |procedure| procedure.final_errors([Code::NotFound]));
    let key = Uuid::new_v4();
    call(&harness, &orders, key, "nothing").await.failed_with(Code::NotFound);
    let replayed = call(&harness, &orders, key, "nothing").await.replayed();
    assert_eq!(replayed.into_result().expect_err("the error").code(), Code::NotFound);
}

#[tokio::test]
async fn hold_with_a_key_of_any_form() {
    let (harness, mut orders) = harness(create, |procedure| procedure.key_format(KeyFormat::Any));
    for text in ["order-17", r#"a"b\c;d,e"#, "8e03978e-40d5-43dd-bc93-6894a57f9324"] {
        let key = IdempotencyKey::new(text, KeyFormat::Any).expect("a key");
        let first = harness.call(key.clone(), order("lamp"), |request| orders.create_order(request)).await;
        let first = first.executed_once().into_message();
        let retry = harness.call(key.clone(), order("lamp"), |request| orders.create_order(request)).await;
        assert_eq!(retry.replayed().into_message(), first, "{text}");
        assert_eq!(harness.record(key).await.completed::<CreateOrderResponse>(), first, "{text}");
    }
}

/// The test's request may bring metadata and extensions of its own.
#[tokio::test]
async fn hold_for_a_request_of_the_tests_own() {
    let (harness, mut orders) = harness(
        async |request| {
            assert_eq!(request.metadata().get("region").expect("it is sent"), "here");
            create(request).await
        },
        |procedure| procedure,
    );
    let mut request = tonic::Request::new(order("lamp"));
    request.metadata_mut().insert("region", "here".parse().expect("metadata"));
    harness.call(Uuid::new_v4(), request, |request| orders.create_order(request)).await.executed_once();
}

#[tokio::test]
async fn say_what_happened_instead() {
    let (harness, orders) = harness(create, |procedure| procedure.final_errors([Code::NotFound]));
    let (key, failed) = (Uuid::new_v4(), Uuid::new_v4());
    let ran = async || call(&harness, &orders, Uuid::new_v4(), "lamp").await;
    let status = "; idempotency-status: completed";

    let said = panic_of(async || _ = ran().await.replayed()).await;
    assert_eq!(said, format!("expected a replay; but the handler ran once, and the call succeeded{status}"));
    let said = panic_of(async || _ = ran().await.refused_with(Reason::KeyReused)).await;
    assert!(said.starts_with("expected a refusal with IDEMPOTENCY_KEY_REUSED; but the handler ran once"), "{said}");
    let said = panic_of(async || _ = ran().await.failed_with(Code::NotFound)).await;
    assert!(said.starts_with("expected the handler to run once and fail with NOT_FOUND; but"), "{said}");
    let said = panic_of(async || _ = ran().await.with_status(IdempotencyStatus::Failed)).await;
    assert!(said.starts_with("expected a response with idempotency-status: failed; but"), "{said}");

    call(&harness, &orders, key, "lamp").await.executed_once();
    let said = panic_of(async || _ = call(&harness, &orders, key, "lamp").await.executed_once()).await;
    let instead = "the handler did not run, and the response is a replay";
    assert_eq!(said, format!("expected the handler to run once and succeed; but {instead}{status}"));
    let said = panic_of(async || _ = call(&harness, &orders, key, "chair").await.executed_once()).await;
    let refused = "but the handler did not run, and the layer refused the call with IDEMPOTENCY_KEY_REUSED \
                   (INVALID_ARGUMENT: this idempotency key was used with another request";
    assert!(said.contains(refused), "{said}");
    let said = panic_of(async || _ = call(&harness, &orders, key, "chair").await.failed_with(Code::InvalidArgument));
    assert!(said.await.contains("the layer refused the call"));

    let said = panic_of(async || _ = call(&harness, &orders, failed, "nothing").await.executed_once()).await;
    assert!(said.ends_with("but the handler ran once, and the call failed (NOT_FOUND: no such item)"), "{said}");
    let said = panic_of(async || _ = call(&harness, &orders, failed, "nothing").await.failed_with(Code::NotFound));
    let said = said.await;
    assert!(said.contains("the handler did not run, and the error is a replay (NOT_FOUND: no such item)"), "{said}");
    let said = panic_of(async || _ = call(&harness, &orders, failed, "nothing").await.into_message()).await;
    assert!(said.starts_with("expected a response; but the handler did not run"), "{said}");
}

/// A call whose procedure is not opted in succeeds, and creates twice if it is retried.
#[tokio::test]
async fn say_that_a_call_is_not_protected() {
    let unprotected = |_| IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).build(); // the store is missing
    let harness = Harness::with_layer(MemoryStore::new(), unprotected, OrderServiceServer::new(Orders(create)));
    let orders = OrderServiceClient::new(harness.channel());
    let said = panic_of(async || _ = call(&harness, &orders, Uuid::new_v4(), "lamp").await.executed_once()).await;
    let instead = "the handler ran once, and the layer did not protect the call: does it have a store that answers, and is the procedure among";
    assert!(said.contains(instead) && said.contains("/orders.v1.OrderService/CreateOrder"), "{said}");
}

#[tokio::test]
async fn say_why_the_layer_cannot_be_built() {
    let fails = |_| Err::<IdempotencyLayer, _>("the settings are wrong");
    let said = panic_of(async || {
        _ = Harness::with_layer(MemoryStore::new(), fails, OrderServiceServer::new(Orders(create)));
    });
    assert_eq!(said.await, "the idempotency layer cannot be built: the settings are wrong");
}

#[tokio::test]
async fn fail_at_the_line_of_the_test() {
    let (harness, orders) = harness(create, |procedure| procedure);
    let called: Called<_> = call(&harness, &orders, Uuid::new_v4(), "lamp").await;
    let (here, there) = (Location::caller(), located_panic_of(async || _ = called.replayed()).await.1);
    assert_eq!((there.0.as_str(), there.1), (here.file(), here.line()));
}

/// The message of the panic.
pub(crate) async fn panic_of(code: impl AsyncFnOnce()) -> String {
    located_panic_of(code).await.0
}

/// The message of the panic, its file and its line.
async fn located_panic_of(code: impl AsyncFnOnce()) -> (String, (String, u32)) {
    thread_local! {
        static PANIC: RefCell<Option<(String, u32)>> = const { RefCell::new(None) };
    }
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
            let location = info.location().map(|location| (location.file().to_owned(), location.line()));
            PANIC.set(location);
            before(info);
        }));
    });
    let ended = futures_util::FutureExt::catch_unwind(AssertUnwindSafe(code())).await;
    let panicked = ended.expect_err("the assertion fails");
    let message = match panicked.downcast::<String>() {
        Ok(message) => *message,
        Err(other) => (*other.downcast::<&str>().expect("a message")).to_owned(),
    };
    (message, PANIC.take().expect("a location"))
}
