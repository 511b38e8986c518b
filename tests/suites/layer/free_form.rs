//! Keys that are not UUIDs.

use tonic_idempotency::{IdempotencyKey, layer::KeyInterceptor};

use crate::prelude::*;

/// A shop that takes any keys.
async fn shop() -> Shop {
    on(MemoryStore::new(), KeyFormat::Any).await
}

async fn on(store: MemoryStore, key_format: KeyFormat) -> Shop {
    Shop::with(|builder| builder.store(store).policies(Policies { key_format, ..Policies::default() })).await
}

fn request(shop: &Shop, keys: &[&str]) -> Request<CreateOrderRequest> {
    let mut request = shop::request("a", shop.user, None);
    for key in keys {
        request.metadata_mut().append("idempotency-key", key.parse().expect("metadata"));
    }
    request
}

async fn create(shop: &Shop, keys: &[&str]) -> Result<Seen, Status> {
    shop.client.clone().create_order(request(shop, keys)).await.map(Seen::of)
}

#[tokio::test]
async fn protect_a_call_like_a_uuid() {
    let shop = shop().await;
    let first = create(&shop, &["order-17"]).await.expect("the first call");
    first.assert("processing", false);
    for keys in [["order-17"].as_slice(), &["\"order-17\""], &["order-17, \"order-17\";v=1"], &["order-17", "order-17"]]
    {
        let replay = create(&shop, keys).await.expect("a replay");
        replay.assert("processing", true);
        assert_eq!(replay.message, first.message, "{keys:?}");
    }
    assert_eq!(shop.handler.finished(), 1);

    create(&shop, &["order-18"]).await.expect("another key").assert("processing", false);
    create(&shop, &["Order-17"]).await.expect("another key").assert("processing", false);
}

/// Firefox, behind a preference, adds a number to each POST without a key.
#[tokio::test]
async fn that_firefox_has_chosen_are_keys_only_if_any_text_is_one() {
    let keys = ["\"18446744073709551615\""];
    let refused = create(&on(MemoryStore::new(), KeyFormat::Uuid).await, &keys).await;
    assert_refused(refused, Code::InvalidArgument, Reason::KeyInvalid);
    let shop = shop().await;
    let first = create(&shop, &keys).await.expect("the first call");
    first.assert("processing", false);
    create(&shop, &keys).await.expect("a replay").assert_replays("processing", &first);
}

#[tokio::test]
async fn reach_the_handler_as_their_caller_wrote_them() {
    let shop = shop().await;
    for (header, key) in [
        ("order-17", "order-17"),
        (r#""a_\"quoted\\one""#, r#"a_"quoted\one"#),
        ("8E03978E-40D5-43DD-BC93-6894A57F9324", "8E03978E-40D5-43DD-BC93-6894A57F9324"),
    ] {
        let mut client = shop.client.clone();
        let reply = client.create_order(request(&shop, &[header])).await.expect("a call").into_inner();
        assert_eq!(reply.key, key, "{header}");
    }
}

#[tokio::test]
async fn that_are_uuids_keep_their_records_in_either_format() {
    let store = MemoryStore::new();
    let (strict, free) = (on(store.clone(), KeyFormat::Uuid).await, on(store, KeyFormat::Any).await);
    let key = Uuid::new_v4();
    let [strict, free] = [strict, free].map(|shop| Shop { user: Some(Uuid::from_u128(1)), ..shop.with_key(Some(key)) });
    strict.create("a").await.expect("the first call").assert("processing", false);
    free.create("a").await.expect("a replay").assert("processing", true);
    let form = format!("\"{}\"", key.simple().to_string().to_uppercase());
    create(&free, &[&form]).await.expect("a replay").assert("processing", true);
}

#[tokio::test]
async fn are_refused_if_they_are_not_one_key() {
    let (too_long, letters) = ("k".repeat(256), "k".repeat(255));
    let [uuid, other] = [(); 2].map(|()| Uuid::new_v4().to_string());
    for (format, keys) in [
        (KeyFormat::Any, [""].as_slice()),
        (KeyFormat::Any, &["\"\""]),
        (KeyFormat::Any, &["a,b"]),
        (KeyFormat::Any, &["a", "b"]),
        (KeyFormat::Any, &["order 17"]),
        (KeyFormat::Any, &["\"order-17"]),
        (KeyFormat::Any, &["order\"17"]),
        (KeyFormat::Any, &["\"order\\17\""]),
        (KeyFormat::Any, &[&too_long]),
        (KeyFormat::Uuid, &[""]),
        (KeyFormat::Uuid, &["\""]),
        (KeyFormat::Uuid, &["order-17"]),
        (KeyFormat::Uuid, &[&uuid, &other]),
        (KeyFormat::Uuid, &[&too_long]),
    ] {
        let shop = on(MemoryStore::new(), format).await;
        let status = assert_refused(create(&shop, keys).await, Code::InvalidArgument, Reason::KeyInvalid);
        let violations = status.get_details_bad_request().expect("a BadRequest").field_violations;
        assert_eq!(violations[0].field, "idempotency-key", "{keys:?}");
        assert!(violations[0].description.contains("; "), "it says what to do: {keys:?}");
        assert_eq!(shop.handler.started(), 0, "{keys:?}");
    }
    create(&shop().await, &[&letters]).await.expect("the longest key").assert("processing", false);
}

#[tokio::test]
async fn are_refused_by_a_procedure_that_takes_uuids() {
    let shop = on(MemoryStore::new(), KeyFormat::Uuid).await;
    assert_refused(create(&shop, &["order-17"]).await, Code::InvalidArgument, Reason::KeyInvalid);

    // Also if an interceptor in front of the layer has parsed it.
    use tonic_idempotency_tests::shop::proto::shop_client::ShopClient;
    use tower_layer::Layer as _;
    let wrapped = shop.layer.layer(shop::server(shop.handler.clone()));
    let interceptors = |request| shop::authenticate(tonic::service::Interceptor::call(&mut any(), request)?);
    let service = tonic::service::interceptor::InterceptedService::new(wrapped, interceptors);
    let channel = shop::channel(shop::serve(tonic::service::Routes::new(service)).await).await;
    assert_refused(
        ShopClient::new(channel).create_order(request(&shop, &["order-17"])).await,
        Code::InvalidArgument,
        Reason::KeyInvalid,
    );
    assert_eq!(shop.handler.started(), 0);
}

fn any() -> KeyInterceptor {
    KeyInterceptor::new(KeyFormat::Any)
}

#[test]
fn are_parsed_by_the_interceptor_if_it_takes_them() {
    use tonic::service::Interceptor as _;
    let mut request = Request::new(());
    request.metadata_mut().insert("idempotency-key", "order-17".parse().expect("metadata"));
    let request = any().call(request).expect("accepted");
    assert_eq!(request.extensions().get::<IdempotencyKey>().map(IdempotencyKey::as_str), Some("order-17"));
    assert!(KeyInterceptor::default().call(request).is_err());
}
