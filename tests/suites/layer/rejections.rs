//! Refusals as a client sees them: each row of the table in the docs of `Reason`.

use crate::prelude::*;

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
