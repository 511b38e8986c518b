//! The life of a key: first call, replay, failure, expiry.

use tonic_idempotency::policy::ResponseError;

use crate::prelude::*;

#[tokio::test]
async fn replays_the_first_response_without_running_the_handler() {
    let shop = Shop::new().await;
    let first = shop.create("a").await.expect("the first call");
    first.assert("processing", false);
    for _ in 0..3 {
        shop.create("a").await.expect("a replay").assert_replays("processing", &first);
    }
    assert_eq!(shop.handler.finished(), 1);
}

#[tokio::test]
async fn runs_the_handler_for_each_key_and_each_user() {
    let shop = Shop::new().await;
    let first = shop.create("a").await.expect("the first call");
    let other_key = shop.with_new_key().create("a").await.expect("another key");
    let other_user = Shop { user: Some(Uuid::new_v4()), ..shop.with_key(shop.key) };
    let other_user = other_user.create("a").await.expect("another user");
    other_key.assert("processing", false);
    other_user.assert("processing", false);
    assert_ne!(first.message, other_key.message);
    assert_ne!(first.message, other_user.message);
    assert_eq!(shop.handler.finished(), 3);
}

/// The policy decides whether a reservation waits for the disk.
#[tokio::test]
async fn passes_the_effect_policy_to_the_store() {
    let (plain, careless) = (Watched::default(), Watched::default());
    let shop = Shop::on(plain.clone()).await;
    shop.create("a").await.expect("a call of a procedure without an effect policy");
    shop.with_new_key().cancel("a").await.expect("a call of a procedure with an effect policy");
    assert_eq!(plain.effects(), [EffectPolicy::Anywhere, EffectPolicy::SameServer]);
    let policies = Policies { effect: EffectPolicy::SameServer, ..Policies::default() };
    let shop = Shop::with(|builder| builder.store(careless.clone()).policies(policies)).await;
    shop.create("a").await.expect("a call of a layer with an effect policy");
    assert_eq!(careless.effects(), [EffectPolicy::SameServer]);
}

#[tokio::test]
async fn releases_the_key_of_a_call_that_failed_or_panicked() {
    for (name, code, says) in [("fail", Code::NotFound, "no such thing"), ("panic", Code::Internal, "")] {
        let shop = Shop::new().await;
        for started in 1..=2 {
            let status = shop.create(name).await.expect_err("the handler fails");
            assert_eq!(status.code(), code);
            // The client does not see the panic's message.
            assert!(status.message().contains(says) && !status.message().contains("told to"), "{status:?}");
            assert!(status.metadata().get("idempotency-status").is_none());
            assert_eq!(shop.handler.started(), started);
        }
        // The key is free, so another request may use it.
        shop.create("a").await.expect("the key is free").assert("processing", false);
    }
}

#[tokio::test]
async fn stores_a_response_whose_id_field_is_not_a_uuid() {
    let shop = Shop::new().await;
    let first = shop.create("empty").await.expect("the first call");
    shop.create("empty").await.expect("a replay").assert_replays("processing", &first);
}

#[tokio::test]
async fn does_not_store_redacted_fields() {
    let shop = Shop::new().await;
    let first = shop.pay("a").await.expect("the first call");
    assert!(first.message.contains("hidden"), "{first:?}");
    let replay = shop.pay("a").await.expect("a replay");
    replay.assert("processing", true);
    assert_eq!(replay.message, first.message.replace("hidden", ""));
}

/// The procedure of a layer that redacts these fields of `written.v1.Response`.
fn redacting(fields: &[&str]) -> Procedure {
    let path = "/written.v1.Service/Create";
    let procedure = fields.iter().fold(Procedure::builder(path), |procedure, field| procedure.redact(*field));
    let pool = compile("rpc Create(Request) returns (Response);");
    let layer = IdempotencyLayer::builder(pool).procedure(procedure).build().expect("the layer can be built");
    layer.procedures().next().expect("a procedure").clone()
}

#[test]
fn redacts_fields_in_the_values_of_maps() {
    let procedure = redacting(&["by_name.id", "by_name.inner.by_name.raw"]);
    let within = |field: u8, message: &[u8]| [&[field << 3 | 2, message.len() as u8], message].concat();
    let entry = |message: &[u8]| within(7, &[within(1, b"a"), within(2, message)].concat());
    let innermost = [within(5, b"secret"), vec![0x10, 2]].concat();
    let response = entry(&[within(1, b"secret"), vec![0x10, 1], within(4, &entry(&innermost))].concat());
    let stored = procedure.redacted(response.into()).expect("it can be redacted");
    assert!(!stored.windows(6).any(|text| text == b"secret"), "{}", stored.escape_ascii());
    assert!(stored.windows(2).any(|field| field == [0x10, 1]) && stored.windows(2).any(|field| field == [0x10, 2]));
}

#[test]
fn does_not_store_a_response_with_unknown_fields_beside_a_redacted_one() {
    let unknown = b"\xfa\x01\x06secret";
    let within = |field: u8, message: &[u8]| [&[field << 3 | 2, message.len() as u8], message].concat();
    let entry = |message: &[u8]| within(7, &[within(1, b"a"), within(2, message)].concat());
    for (path, response) in [
        ("id", unknown.to_vec()),
        ("inner.id", within(4, unknown)),
        ("inner.id", [within(4, b""), unknown.to_vec()].concat()),
        ("by_name.id", entry(unknown)),
    ] {
        assert_eq!(redacting(&[path]).redacted(response.into()), Err(ResponseError::UnknownFields), "{path}");
    }
    // Unknown fields that cannot be the redacted field are stored.
    for (path, response) in [("id", within(4, unknown)), ("inner.id", entry(unknown))] {
        assert_eq!(redacting(&[path]).redacted(response.clone().into()).as_deref(), Ok(response.as_slice()), "{path}");
    }
    // An undecodable response is not stored.
    assert_eq!(redacting(&["id"]).redacted(b"\x0a\x05a".as_slice().into()), Err(ResponseError::Unreadable));
}

#[tokio::test]
async fn gives_the_key_to_the_handler_and_passes_on_its_metadata() {
    let shop = Shop::new().await;
    let request = tonic_idempotency_tests::shop::request("a", shop.user, shop.key);
    let response = shop.client.clone().create_order(request).await.expect("the first call");
    assert_eq!(response.metadata().get("shop-region").expect("the metadata"), "here");
    assert_eq!(response.get_ref().key, shop.key.expect("a key").to_string());
}

/// Of a success, a final error, and an outcome that is not known.
#[tokio::test(start_paused = true)]
async fn runs_the_handler_again_once_the_record_expired() {
    let retention = Duration::from_secs(3600);
    let policies =
        move |procedure: ProcedureBuilder| procedure.retention(retention).final_errors([Code::FailedPrecondition]);
    for name in ["a", "fail for good", "effect and fail"] {
        let shop = Shop::in_memory(|builder| builder.store(MemoryStore::new()).adjust_procedures(policies)).await;
        for (passes, started) in [(0, 1), (3500, 1), (200, 2), (1, 2)] {
            tokio::time::sleep(Duration::from_secs(passes)).await;
            assert_eq!(shop.create(name).await.is_ok(), name == "a");
            assert_eq!(shop.handler.started(), started, "{name}");
        }
    }
}
