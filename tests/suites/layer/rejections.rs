//! Refusals as a client sees them: each row of the table in the docs of `Reason`.

use crate::prelude::*;

#[tokio::test]
async fn refuses_a_call_without_a_required_key() {
    let shop = Shop::new().await.with_key(None);
    let status = assert_refused(shop.pay("a").await, Code::InvalidArgument, Reason::KeyRequired);
    assert_eq!(status.get_details_bad_request().expect("a BadRequest").field_violations[0].field, "idempotency-key");
    assert_eq!(shop.handler.started(), 0);
}

#[tokio::test]
async fn refuses_a_key_of_another_procedure_or_request() {
    let shop = Shop::new().await;
    let mismatch = |status: &Status| {
        assert_rejected(status, Code::InvalidArgument, Reason::KeyReused);
        status.get_details_error_info().expect("an ErrorInfo").metadata["mismatch"].clone()
    };
    shop.create("a").await.expect("the first call");
    assert_eq!(mismatch(&shop.create("b").await.expect_err("refused")), "request");
    assert_eq!(mismatch(&shop.touch("a").await.expect_err("refused")), "procedure");
    assert_eq!(shop.handler.finished(), 1);
}

#[tokio::test]
async fn refuses_a_key_while_its_first_call_runs() {
    let shop = Shop::new().await;
    let running = shop.run_create("hold").await;
    let status = assert_refused(shop.create("hold").await, Code::Aborted, Reason::InProgress);
    let delay = retry_delay(&status);
    assert!(delay > Duration::ZERO && delay <= Duration::from_secs(1), "{delay:?}");
    // A mismatch takes precedence.
    assert_refused(shop.create("b").await, Code::InvalidArgument, Reason::KeyReused);

    shop.handler.open(1);
    running.await.expect("no panic").expect("the first call").assert("processing", false);
    shop.create("hold").await.expect("a replay").assert("processing", true);
    assert_eq!(shop.handler.finished(), 1);
}

#[tokio::test]
async fn refuses_a_key_whose_response_was_too_large_to_store() {
    let shop = Shop::with(|builder| builder.store(MemoryStore::new()).max_response_bytes(40)).await;
    let first = shop.create("a long name, longer than forty bytes").await.expect("the first caller gets it");
    first.assert("processing", false);
    let status = assert_refused(
        shop.create("a long name, longer than forty bytes").await,
        Code::FailedPrecondition,
        Reason::NotStored,
    );
    let resource = &status.get_details_error_info().expect("an ErrorInfo").metadata["resource_id"];
    assert!(first.message.contains(resource), "{first:?}");
    assert_eq!(shop.handler.finished(), 1);
}
