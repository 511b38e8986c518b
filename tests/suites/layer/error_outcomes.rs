//! The `idempotency-outcome` that the layer adds to an error of the handler: kept, freed, or none.

use crate::prelude::*;

fn some_are_final(builder: IdempotencyLayerBuilder) -> IdempotencyLayerBuilder {
    builder.adjust_procedures(|procedure| procedure.final_errors([Code::FailedPrecondition]))
}

/// Returns the `idempotency-outcome` of an error.
fn said(status: Status) -> Option<String> {
    let headers: HeaderMap = status.metadata().clone().into_headers();
    headers.get("idempotency-outcome").map(|said| said.to_str().expect("a text").to_owned())
}

/// The name of a call, and the `idempotency-outcome` of its error; twice, as the second may be a replay. On its final error, the handler
/// itself sets the contrary.
const TABLE: [(&str, [Option<&str>; 2]); 5] = [
    ("fail", [Some("freed"), Some("freed")]),
    ("fail with 14", [Some("freed"), Some("freed")]),
    ("panic", [Some("freed"), Some("freed")]),
    ("fail for good", [Some("kept"), Some("kept")]),
    // It is not known what became of it; the second is the layer's own refusal.
    ("effect and fail", [None, None]),
];

async fn is_said_beside_each_error_of_a_handler(store: impl Store) {
    let shop = Shop::with(|builder| some_are_final(builder).store(store)).await;
    for (name, expected) in TABLE {
        let shop = shop.with_new_key();
        for expected in expected {
            assert_eq!(said(shop.create(name).await.expect_err(name)).as_deref(), expected, "{name}");
        }
    }
}
on_both_stores!(is_said_beside_each_error_of_a_handler);

/// A retry may run, or get the error again.
#[tokio::test(start_paused = true)]
async fn is_not_said_if_the_store_has_not_taken_it() {
    for (operation, name) in [(Operation::Release, "fail"), (Operation::Complete, "fail for good")] {
        let (shop, store) = Shop::watched(some_are_final).await;
        store.fail(operation, StoreErrorKind::Unreachable);
        assert_eq!(said(shop.create(name).await.expect_err(name)), None, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn is_not_said_beside_an_error_of_a_call_that_runs_unprotected() {
    let (shop, store) = Shop::watched(|builder| some_are_final(builder).policies(proceeding())).await;
    store.fail(Operation::Claim, StoreErrorKind::Unreachable);
    assert_eq!(said(shop.create("fail").await.expect_err("it fails")), None);
    // A header that the handler has set is not passed on as the layer's.
    assert_eq!(said(shop.create("fail for good").await.expect_err("it fails")), None);
}

/// It waits in the same process, and gets the answer of the first.
#[tokio::test(start_paused = true)]
async fn is_said_beside_the_error_that_a_waiting_call_gets() {
    let waits = |procedure: ProcedureBuilder| {
        procedure.final_errors([Code::FailedPrecondition]).on_in_progress(InProgressPolicy::Wait)
    };
    let shop = Shop::in_memory(|builder| builder.adjust_procedures(waits).store(MemoryStore::default())).await;
    let [first, second] = [(); 2].map(|()| shop.spawn_create("hold and fail for good"));
    quiet().await;
    shop.handler.open(1);
    for call in [first, second] {
        assert_eq!(said(call.await.expect("no panic").expect_err("it fails")).as_deref(), Some("kept"));
    }
    assert_eq!(shop.handler.started(), 1);
}

#[tokio::test]
async fn is_not_said_beside_a_refusal_of_the_layer_or_an_error_without_a_key() {
    let shop = Shop::with(|builder| some_are_final(builder).store(MemoryStore::default())).await;
    shop.create("fail for good").await.expect_err("it fails");
    assert_eq!(said(shop.create("another request").await.expect_err("the key is of another request")), None);
    let without_user = Shop { user: None, key: Some(Uuid::new_v4()), ..shop };
    assert_eq!(said(without_user.create("fail").await.expect_err("it has no user")), None);
    assert_eq!(said(without_user.with_key(None).create("fail").await.expect_err("it fails")), None);
}
