//! Refusals as a client sees them: each row of the table in the docs of `Reason`.

use tonic::metadata::MetadataValue;

use crate::prelude::*;

#[tokio::test]
async fn refuses_a_malformed_or_repeated_key() {
    let shop = Shop::new().await;
    let uuid = Uuid::new_v4().to_string();
    let other = Uuid::new_v4().to_string();
    for keys in [vec![""], vec!["order-17"], vec![&uuid, &other], vec!["\""], vec![&*"a".repeat(500)]] {
        let mut request = shop::request("a", shop.user, None);
        for key in &keys {
            request.metadata_mut().append("idempotency-key", key.parse().expect("metadata"));
        }
        let status =
            assert_refused(shop.client.clone().create_order(request).await, Code::InvalidArgument, Reason::KeyInvalid);
        let bad = status.get_details_bad_request().expect("a BadRequest");
        assert_eq!(bad.field_violations[0].field, "idempotency-key", "{keys:?}");
    }
    assert_eq!(shop.handler.started(), 0);
}

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
    let (first, second) = (shop.with_key(shop.key), shop.with_key(shop.key));
    let running = tokio::spawn(async move { first.create("hold").await });
    until("the handler runs", async || shop.handler.started() == 1).await;

    let status = assert_refused(second.create("hold").await, Code::Aborted, Reason::InProgress);
    let delay = retry_delay(&status);
    assert!(delay > Duration::ZERO && delay <= Duration::from_secs(1), "{delay:?}");
    // A mismatch takes precedence.
    assert_refused(second.create("b").await, Code::InvalidArgument, Reason::KeyReused);

    shop.handler.open(1);
    running.await.expect("no panic").expect("the first call").assert("processing", false);
    second.create("hold").await.expect("a replay").assert("processing", true);
    assert_eq!(shop.handler.finished(), 1);
}

#[tokio::test]
async fn refuses_a_key_whose_outcome_is_unknown() {
    let store = MemoryStore::new();
    let shop = Shop::on(store.clone()).await;
    shop.die(&store, "/shop.v1.Shop/Pay", "a").await;
    assert_refused(shop.pay("a").await, Code::FailedPrecondition, Reason::OutcomeUnknown);
    assert_eq!(shop.handler.started(), 0);

    // A procedure whose policy is to rerun runs again.
    let other = shop.with_new_key();
    other.die(&store, CREATE, "a").await;
    other.create("a").await.expect("run again").assert("processing", false);
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

#[tokio::test]
async fn refuses_a_call_without_a_required_user() {
    let shop = Shop { user: None, ..Shop::new().await };
    assert_refused(shop.pay("a").await, Code::Unauthenticated, Reason::NoUser);
    assert_eq!(shop.handler.started(), 0);
}

#[tokio::test]
async fn takes_all_forms_of_a_key_as_one() {
    let shop = Shop::new().await;
    shop.create("a").await.expect("the first call").assert("processing", false);
    let key = shop.key.expect("a key").to_string();
    for form in [format!("\"{key}\""), key.to_uppercase(), format!("{key}, {key}")] {
        let mut request = shop::request("a", shop.user, None);
        let value = MetadataValue::try_from(form).expect("metadata");
        request.metadata_mut().insert("idempotency-key", value);
        shop.client.clone().create_order(request).await.map(Seen::of).expect("a replay").assert("processing", true);
    }
}
