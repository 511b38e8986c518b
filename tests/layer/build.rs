//! Layers that can be built, and those that cannot.

use std::{fs, path::PathBuf, time::Duration};

use prost_reflect::DescriptorPool;
use tonic_idempotency::{
    BuildError, IdempotencyLayer, IdempotencyLayerBuilder, KeyPolicy, LeasePolicy, MemoryStore, Policies, Procedure,
    ProcedureBuilder, StorePolicy, UserPolicy,
};
use tonic_idempotency_tests::shop::{FILE_DESCRIPTOR_SET, LOSSY_FILE_DESCRIPTOR_SET};
use uuid::Uuid;

use crate::duplicates::resource_types;

fn procedure(layer: &IdempotencyLayer, path: &str) -> Procedure {
    layer.procedures().find(|procedure| procedure.path() == path).unwrap_or_else(|| panic!("no {path}")).clone()
}

fn error(builder: IdempotencyLayerBuilder) -> String {
    match builder.build() {
        Err(BuildError::Procedure(error)) => error.to_string(),
        other => panic!("no error of a procedure but {other:?}"),
    }
}

/// The error of a layer for which this procedure is described in code.
fn error_of(procedure: ProcedureBuilder) -> String {
    error(IdempotencyLayer::builder(LOSSY_FILE_DESCRIPTOR_SET).procedure(procedure))
}

/// The pool of a file that a person wrote.
fn compile(methods: &str) -> DescriptorPool {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(Uuid::new_v4().to_string());
    let include = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../proto");
    fs::create_dir_all(&folder).expect("a folder");
    let file = format!(
        "syntax = \"proto3\"; package written.v1; import \"idempotency/v1/procedure.proto\";
         message Request {{}}
         message Response {{ string id = 1; int64 number = 2; repeated string ids = 3; Response inner = 4; bytes raw = 5;
                             map<string, string> map = 6; }}
         service Service {{ {methods} }}"
    );
    fs::write(folder.join("written.proto"), file).expect("a file");
    let mut compiler = protox::Compiler::new([&folder, &include]).expect("the folders");
    compiler.include_imports(true).open_file("written.proto").expect("it compiles");
    let pool = compiler.descriptor_pool();
    fs::remove_dir_all(folder).expect("the folder goes");
    pool
}

/// The error of a layer whose proto file has this method.
fn error_in_proto(method: &str) -> String {
    error(IdempotencyLayer::builder(compile(method)).store(MemoryStore::new()))
}

#[test]
fn the_option_and_the_code_come_to_the_same_procedure() {
    let option = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).build().expect("a layer");
    // Both from one pool, in which descriptors are compared.
    let pool = procedure(&option, "/shop.v1.Shop/Pay").method().parent_pool().clone();
    let option = IdempotencyLayer::builder(pool.clone()).build().expect("a layer");
    let code = IdempotencyLayer::builder(pool)
        .procedure(Procedure::builder("/shop.v1.Shop/CreateOrder").creates("order", "order.id"))
        .procedure(
            Procedure::builder("shop.v1.Shop/Pay")
                .creates("payment", "payment_id")
                .key(KeyPolicy::Required)
                .on_no_user(UserPolicy::Reject)
                .on_store_unavailable(StorePolicy::Reject)
                .on_lease_ended(LeasePolicy::Refuse)
                .lease(Duration::from_secs(60))
                .retention(Duration::from_secs(7 * 24 * 3600))
                .redact("secret")
                .redact("receipts.secret"),
        )
        .procedure(Procedure::builder("/shop.v1.Shop/Touch"))
        .build()
        .expect("a layer");
    for path in ["/shop.v1.Shop/CreateOrder", "/shop.v1.Shop/Pay", "/shop.v1.Shop/Touch"] {
        assert_eq!(procedure(&option, path), procedure(&code, path));
    }
}

#[test]
fn the_code_wins_over_the_option() {
    let layer = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET)
        .procedure(Procedure::builder("/shop.v1.Shop/Pay").key(KeyPolicy::Optional))
        .build()
        .expect("a layer");
    let pay = procedure(&layer, "/shop.v1.Shop/Pay");
    assert_eq!((pay.creates(), *pay.policies()), (None, Policies::default()));
}

#[test]
fn what_a_procedure_leaves_out_is_the_layers() {
    let policies = Policies { lease: Duration::from_secs(7), key: KeyPolicy::Required, ..Policies::default() };
    let layer = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).policies(policies).build().expect("a layer");
    assert_eq!(*procedure(&layer, "/shop.v1.Shop/CreateOrder").policies(), policies);
    assert_eq!(procedure(&layer, "/shop.v1.Shop/Pay").policies().lease, Duration::from_secs(60));
}

#[test]
fn refuses_an_id_field_that_is_not_there() {
    let message = error_of(Procedure::builder("/shop.v1.Shop/CreateOrder").creates("order", "order.uuid"));
    assert!(message.contains("/shop.v1.Shop/CreateOrder") && message.contains("order.uuid"), "{message}");
    let message = error_in_proto(
        "rpc Create(Request) returns (Response) {
           option (idempotency.v1.procedure) = { creates: { resource_type: 'a', id_field: 'uuid' } }; }",
    );
    assert!(message.contains("/written.v1.Service/Create") && message.contains("uuid"), "{message}");
}

#[test]
fn refuses_an_id_field_that_cannot_hold_a_uuid() {
    for field in ["number", "ids", "inner", "map", "id.more", "ids.more", "inner.inner", ""] {
        let message = error_in_proto(&format!(
            "rpc Create(Request) returns (Response) {{
               option (idempotency.v1.procedure) = {{ creates: {{ resource_type: 'a', id_field: '{field}' }} }}; }}",
        ));
        assert!(message.contains("/written.v1.Service/Create"), "{field}: {message}");
    }
    for field in ["id", "raw", "inner.id", "inner.inner.raw"] {
        let method = format!(
            "rpc Create(Request) returns (Response) {{
               option (idempotency.v1.procedure) = {{ creates: {{ resource_type: 'a', id_field: '{field}' }} }}; }}",
        );
        IdempotencyLayer::builder(compile(&method)).build().expect(field);
    }
}

#[test]
fn refuses_a_resource_type_that_the_store_does_not_know() {
    let pool = deadpool_postgres::Manager::new(tokio_postgres::Config::new(), tokio_postgres::NoTls);
    let pool = deadpool_postgres::Pool::builder(pool).build().expect("a pool");
    let store = |types| tonic_idempotency::PostgresStore::new(pool.clone(), types);
    IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(store(resource_types())).build().expect("a layer");
    let organization = tonic_idempotency::ResourceTypes::organization();
    let message = error(
        IdempotencyLayer::builder(LOSSY_FILE_DESCRIPTOR_SET)
            .store(store(organization))
            .procedure(Procedure::builder("/shop.v1.Shop/CreateOrder").creates("order", "order.id")),
    );
    assert!(message.contains("/shop.v1.Shop/CreateOrder") && message.contains("\"order\""), "{message}");
    assert!(message.contains("project"), "it says what there is: {message}");
}

#[test]
fn refuses_a_streaming_procedure() {
    let message = error_of(Procedure::builder("/shop.v1.Shop/WatchOrders"));
    assert!(message.contains("/shop.v1.Shop/WatchOrders") && message.contains("streaming"), "{message}");
    for method in ["Create(stream Request) returns (Response)", "Create(Request) returns (stream Response)"] {
        let message = error_in_proto(&format!("rpc {method} {{ option (idempotency.v1.procedure) = {{}}; }}"));
        assert!(message.contains("/written.v1.Service/Create") && message.contains("streaming"), "{message}");
    }
}

#[test]
fn refuses_a_procedure_that_is_not_there() {
    for path in ["/shop.v1.Shop/CreateOrders", "/shop.v1.Shops/CreateOrder", "nonsense"] {
        let message = error_of(Procedure::builder(path));
        assert!(message.contains(path), "{message}");
    }
}

#[test]
fn refuses_to_redact_a_field_that_is_not_there() {
    for field in ["secrets", "receipts.secrets", "secret.more", ""] {
        let message = error_of(Procedure::builder("/shop.v1.Shop/Pay").redact(field));
        assert!(message.contains("/shop.v1.Shop/Pay") && message.contains(field), "{message}");
    }
}

#[test]
fn refuses_a_lease_or_a_retention_of_nothing_or_of_ages() {
    for (option, setting) in [
        ("lease: { seconds: 0 }", "lease"),
        ("lease: { seconds: -1 }", "lease"),
        ("lease: { seconds: 315576000000 }", "lease"),
        ("retention: { seconds: -1 }", "retention"),
        ("retention: {}", "retention"),
    ] {
        let method =
            format!("rpc Create(Request) returns (Response) {{ option (idempotency.v1.procedure) = {{ {option} }}; }}");
        let message = error_in_proto(&method);
        assert!(message.contains("/written.v1.Service/Create") && message.contains(setting), "{message}");
    }
}

#[test]
fn refuses_descriptors_that_are_none() {
    let error = IdempotencyLayer::builder(b"nonsense").build().expect_err("no descriptors");
    assert!(matches!(error, BuildError::Descriptors(_)), "{error}");
}
