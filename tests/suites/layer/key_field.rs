//! Keys in a field of the message.

use std::{fs, path::PathBuf};

use tonic_idempotency::policy::KeyPolicy;
use tonic_idempotency_tests::{Lines, shop::proto::Client};
use tracing::level_filters::LevelFilter;

use crate::prelude::*;
use crate::raw;

/// A shop whose callers send no key in the header, and may send one in this field.
async fn shop(field: &'static str, customise: impl Fn(ProcedureBuilder) -> ProcedureBuilder) -> Shop {
    built(field, customise, |builder| builder).await
}

/// The same with the field `request_id`.
async fn by_id() -> Shop {
    shop("request_id", |procedure| procedure).await
}

async fn built(
    field: &'static str,
    customise: impl Fn(ProcedureBuilder) -> ProcedureBuilder,
    build: impl FnOnce(IdempotencyLayerBuilder) -> IdempotencyLayerBuilder,
) -> Shop {
    let procedure = customise(Procedure::builder(CREATE).creates("order", "order.id").key_field(field));
    Shop::with(|builder| build(builder.store(MemoryStore::new()).procedure(procedure))).await.with_key(None)
}

fn request(shop: &Shop, change: impl FnOnce(&mut CreateOrderRequest)) -> Request<CreateOrderRequest> {
    let mut request = shop::request("a", shop.user, shop.key);
    change(request.get_mut());
    request
}

async fn create(shop: &Shop, change: impl FnOnce(&mut CreateOrderRequest)) -> Result<Seen, Status> {
    shop.client.clone().create_order(request(shop, change)).await.map(Seen::of)
}

/// Calls with this `request_id`.
async fn with_id(shop: &Shop, id: impl ToString) -> Result<Seen, Status> {
    create(shop, |request| request.request_id = id.to_string()).await
}

/// The field that a refusal names, and the value of its `mismatch`.
fn named(status: &Status) -> (String, Option<String>) {
    let bad = status.get_details_bad_request().expect("a BadRequest");
    let info = status.get_details_error_info().expect("an ErrorInfo");
    (bad.field_violations[0].field.clone(), info.metadata.get("mismatch").cloned())
}

#[tokio::test]
async fn protects_a_call_like_the_header() {
    let shop = by_id().await;
    let key = Uuid::new_v4();
    let first = with_id(&shop, key).await.expect("the first call");
    first.assert("processing", false);
    assert!(first.message.contains(&key.to_string()), "the handler has the key: {first:?}");
    with_id(&shop, key).await.expect("a replay").assert_replays("processing", &first);
    with_id(&shop, Uuid::new_v4()).await.expect("another key").assert("processing", false);
    assert_eq!(shop.handler.finished(), 2);

    let changed = create(&shop, |request| (request.name, request.request_id) = ("b".to_owned(), key.to_string()));
    assert_refused(changed.await, Code::InvalidArgument, Reason::KeyReused);
}

#[tokio::test]
async fn that_is_empty_is_no_key() {
    let shop = shop("client.id", |procedure| procedure).await;
    for (finished, client) in [None, Some(Client::default())].into_iter().enumerate() {
        let seen = create(&shop, |request| request.client = client).await.expect("a call");
        assert_eq!((seen.status, seen.replayed), (None, None));
        assert_eq!(shop.handler.finished(), finished + 1);
    }
    // A compressed call as well.
    let mut client = shop.client.clone().send_compressed(CompressionEncoding::Gzip);
    client.create_order(request(&shop, |request| request.padding = vec![0; 1000])).await.expect("a call");
    assert_eq!(shop.handler.finished(), 3);
}

/// As if the layer were not there: an error of the handler, and a panic, too.
#[tokio::test]
async fn that_is_empty_leaves_the_handlers_answer_alone() {
    let shop = by_id().await;
    for (name, code) in [("fail", Code::NotFound), ("fail with 14", Code::Unavailable)] {
        let status = create(&shop, |request| request.name = name.to_owned()).await.expect_err("it fails");
        assert_eq!((status.code(), Reason::of(&status)), (code, None));
    }
    create(&shop, |request| request.name = "panic".to_owned()).await.expect_err("tonic handles the panic");
    create(&shop, |_| {}).await.expect("a call");
}

#[tokio::test]
async fn may_agree_with_the_header_in_any_form() {
    let shop = by_id().await;
    let key = Uuid::new_v4();
    with_id(&shop, key).await.expect("the first call").assert("processing", false);
    with_id(&shop.with_key(Some(key)), key).await.expect("a replay").assert("processing", true);
    let mut quoted = request(&shop, |request| request.request_id = key.to_string());
    let header = format!("\"{}\"", key.to_string().to_uppercase());
    quoted.metadata_mut().insert("idempotency-key", header.parse().expect("metadata"));
    shop.client.clone().create_order(quoted).await.map(Seen::of).expect("a replay").assert("processing", true);
}

#[tokio::test]
async fn that_disagrees_with_the_header_is_refused() {
    let shop = by_id().await;
    let key = Uuid::new_v4();
    let status = assert_refused(with_id(&shop.with_new_key(), key).await, Code::InvalidArgument, Reason::KeyInvalid);
    assert_eq!(named(&status), ("request_id".to_owned(), Some("key_field".to_owned())));
    assert_eq!(shop.handler.started(), 0);
    with_id(&shop, key).await.expect("nothing was reserved").assert("processing", false);
}

/// The header is not ignored: its caller believes that the call is protected.
#[tokio::test]
async fn that_is_empty_leaves_the_key_to_the_header() {
    let shop = by_id().await;
    let key = Uuid::new_v4();
    let by_header = shop.with_key(Some(key));
    create(&by_header, |_| {}).await.expect("the first call").assert("processing", false);
    create(&by_header, |_| {}).await.expect("a replay").assert("processing", true);
    // The field is part of the request.
    assert_refused(with_id(&shop, key).await, Code::InvalidArgument, Reason::KeyReused);
    assert_eq!(shop.handler.finished(), 1);
}

#[tokio::test]
async fn is_required_if_the_policy_says_so() {
    let shop = shop("client.id", |procedure| procedure.key_policy(KeyPolicy::Required)).await;
    let status = assert_refused(create(&shop, |_| {}).await, Code::InvalidArgument, Reason::KeyRequired);
    assert_eq!(named(&status), ("client.id".to_owned(), None));
    assert_eq!(shop.handler.started(), 0);
    create(&shop.with_new_key(), |_| {}).await.expect("a key").assert("processing", false);
    let client = Client { id: Uuid::new_v4().to_string(), ..Client::default() };
    create(&shop, |request| request.client = Some(client)).await.expect("a key").assert("processing", false);
}

#[tokio::test]
async fn that_is_no_key_is_refused() {
    let uuids = by_id().await;
    let any = shop("request_id", |procedure| procedure.key_format(KeyFormat::Any)).await;
    let too_long = "k".repeat(256);
    for (shop, id) in
        [(&uuids, "order-17"), (&uuids, " "), (&any, "order 17"), (&any, "a\0"), (&any, "größe"), (&any, &too_long)]
    {
        let status = assert_refused(with_id(shop, id).await, Code::InvalidArgument, Reason::KeyInvalid);
        assert_eq!(named(&status), ("request_id".to_owned(), None), "{id:?}");
        assert!(status.message().starts_with("request_id: "), "{status:?}");
    }
    // A text with quotes and commas is itself, not a header.
    for id in ["order-17", "\"a\",\"b\"", &"k".repeat(255)] {
        let seen = with_id(&any, id).await.expect("a call");
        seen.assert("processing", false);
        assert!(seen.message.contains(&format!("{id:?}")), "{seen:?}");
    }
}

#[tokio::test]
async fn may_be_the_bytes_of_a_uuid() {
    let shop = shop("client.token", |procedure| procedure).await;
    let key = Uuid::new_v4();
    let client = |token: &[u8]| Some(Client { token: token.to_vec(), ..Client::default() });
    let first = create(&shop, |request| request.client = client(key.as_bytes())).await.expect("the first call");
    first.assert("processing", false);
    assert!(first.message.contains(&key.to_string()), "the handler has the key: {first:?}");
    create(&shop, |request| request.client = client(key.as_bytes()))
        .await
        .expect("a replay")
        .assert("processing", true);
    for token in [b"7".as_slice(), key.to_string().as_bytes(), &[7; 17]] {
        let status = assert_refused(
            create(&shop, |request| request.client = client(token)).await,
            Code::InvalidArgument,
            Reason::KeyInvalid,
        );
        assert_eq!(named(&status).0, "client.token");
    }
}

/// As a decoder reads it, and so as the handler sees it.
#[tokio::test]
async fn is_the_last_one_of_a_message_in_pieces() {
    let shop = shop("client.id", |procedure| procedure).await;
    let [one, other] = [Uuid::new_v4(), Uuid::new_v4()].map(|id| {
        let client = Client { id: id.to_string(), ..Client::default() };
        (id, CreateOrderRequest { client: Some(client), ..Default::default() }.encode_to_vec())
    });
    let empty = CreateOrderRequest { client: Some(Client::default()), ..Default::default() }.encode_to_vec();
    let body = raw::frame(0, &[one.1.clone(), other.1, empty].concat());
    let answer = raw::post(&shop, CREATE, &[], body).await;
    assert_eq!(answer.status().code(), Code::Ok);
    assert!(String::from_utf8_lossy(&answer.body).contains(&other.0.to_string()), "{answer:?}");
    let answer = raw::post(&shop, CREATE, &[], raw::frame(0, &one.1)).await;
    assert!(!answer.headers.contains_key("idempotent-replayed"), "another key: {answer:?}");
}

#[tokio::test]
async fn needs_a_user_like_the_header() {
    let refusing = Shop { user: None, ..by_id().await };
    assert_refused(with_id(&refusing, Uuid::new_v4()).await, Code::Unauthenticated, Reason::NoUser);
    with_id(&refusing, "").await.expect("a call without a key");

    let passing = shop("request_id", |procedure| procedure.on_no_user(UserPolicy::PassThrough)).await;
    let passing = Shop { user: None, ..passing };
    let key = Uuid::new_v4();
    for finished in 1..=2 {
        let seen = with_id(&passing, key).await.expect("a call");
        assert_eq!((seen.status, seen.replayed), (None, None));
        assert_eq!(passing.handler.finished(), finished);
    }
}

/// A call counts while it is read. Without a key it counts no longer.
#[tokio::test(start_paused = true)]
async fn counts_a_call_as_in_flight_if_it_has_a_key() {
    let procedure = Procedure::builder(CREATE).creates("order", "order.id").key_field("request_id");
    let limits = Limits { in_flight: Limit::new(1, 128), ..Limits::default() };
    let shop = Shop::in_memory(|builder| builder.store(MemoryStore::new()).procedure(procedure).limits(limits)).await;
    let shop = shop.with_key(None);
    let overloaded = async || {
        assert_refused(with_id(&shop, Uuid::new_v4()).await, Code::Unavailable, Reason::Overloaded);
    };
    let (sender, call) = shop.spawn_slow().await;
    quiet().await;
    overloaded().await;
    sender.send(shop::request("hold", None, None).into_inner()).await.expect("the call reads it");
    drop(sender);
    quiet().await;
    assert_eq!(shop.handler.started(), 1);
    with_id(&shop, Uuid::new_v4()).await.expect("none is in flight").assert("processing", false);
    shop.handler.open(1);
    call.await.expect("no panic").expect("an answer");

    let caller = shop.with_key(None);
    let running = tokio::spawn(async move {
        let id = Uuid::new_v4().to_string();
        create(&caller, |request| (request.name, request.request_id) = ("hold".to_owned(), id)).await
    });
    quiet().await;
    assert_eq!(shop.handler.started(), 3);
    overloaded().await;
    shop.handler.open(1);
    running.await.expect("no panic").expect("an answer").assert("processing", false);
}

#[tokio::test]
async fn is_not_looked_for_during_a_shutdown() {
    let shop = by_id().await;
    assert!(shop.layer.shutdown(Duration::ZERO).await.unfinished.is_empty());
    for id in [String::new(), Uuid::new_v4().to_string()] {
        assert_refused(with_id(&shop, id).await, Code::Unavailable, Reason::ShuttingDown);
    }
}

#[tokio::test]
async fn is_not_looked_for_in_a_message_that_cannot_be_read() {
    let shop = built("request_id", |procedure| procedure, |builder| builder.max_request_bytes(1000)).await;
    for (content_type, body, reason) in [
        ("application/grpc+thrift", vec![], Reason::RequestMalformed),
        ("application/grpc", raw::frame(0, b"\x22\x05a"), Reason::RequestMalformed),
        ("application/grpc", raw::frame(0, &[0; 1001]), Reason::RequestTooLarge),
    ] {
        let answer = raw::post(&shop, CREATE, &[("content-type", content_type)], body).await;
        assert_eq!(Reason::of(&answer.status()), Some(reason), "{content_type}");
    }
    assert_eq!(shop.handler.started(), 0);
}

/// As Google's APIs have it. It is not taken for the key: every call without one would be read.
#[test]
fn that_has_the_format_of_a_request_id_is_named_in_the_log() {
    const FIELD_INFO: &str = "syntax = \"proto3\"; package google.api; import \"google/protobuf/descriptor.proto\";
        extend google.protobuf.FieldOptions { FieldInfo field_info = 291403980; }
        message FieldInfo { enum Format { FORMAT_UNSPECIFIED = 0; UUID4 = 1; IPV4 = 2; } Format format = 1; }";
    const BOOKS: &str = "syntax = \"proto3\"; package books.v1; import \"google/api/field_info.proto\";
        message CreateBook {
            string address = 1 [(google.api.field_info).format = IPV4];
            string request_id = 2 [(google.api.field_info).format = UUID4];
        }
        message Book {}
        service Books { rpc Create(CreateBook) returns (Book); rpc Update(Book) returns (Book); }";
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(Uuid::new_v4().to_string());
    fs::create_dir_all(folder.join("google/api")).expect("a folder");
    fs::write(folder.join("google/api/field_info.proto"), FIELD_INFO).expect("a file");
    fs::write(folder.join("books.proto"), BOOKS).expect("a file");
    let mut compiler = protox::Compiler::new([&folder]).expect("the folder");
    let pool = compiler.include_imports(true).open_file("books.proto").expect("it compiles").descriptor_pool();
    fs::remove_dir_all(folder).expect("the folder goes");

    let (lines, _collecting) = Lines::collect(LevelFilter::INFO);
    let build = |create: ProcedureBuilder| {
        let builder = IdempotencyLayer::builder(pool.clone()).store(MemoryStore::new());
        builder.procedure(create).procedure(Procedure::builder("books.v1.Books/Update")).build().expect("a layer");
        lines.take()
    };
    let logged = build(Procedure::builder("books.v1.Books/Create"));
    assert_eq!(logged.lines().count(), 1, "{logged}");
    assert!(logged.contains("/books.v1.Books/Create") && logged.contains("request_id"), "{logged}");
    assert_eq!(build(Procedure::builder("books.v1.Books/Create").key_field("request_id")), "");
}
