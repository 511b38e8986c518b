//! Building a layer: valid settings, and the errors of invalid ones.

use std::{fs, path::PathBuf, time::Duration};

use prost_reflect::DescriptorPool;
use tonic::Code;
use tonic_idempotency::{
    IdempotencyLayer,
    layer::{BuildError, Descriptors, IdempotencyLayerBuilder},
    policy::{
        DisconnectPolicy, EffectPolicy, ExpiredKeyPolicy, ForeignPolicy, InProgressPolicy, Isolation, KeyFormat,
        KeyPolicy, LeasePolicy, Limits, Mode, Policies, Procedure, ProcedureBuilder, StorePolicy, UserPolicy,
    },
    store::{MemoryStore, PostgresStore, ResourceTypes, StatusFromStore},
};
use tonic_idempotency_tests::{
    catalog,
    shop::{FILE_DESCRIPTOR_SET, LOSSY_FILE_DESCRIPTOR_SET},
};
use uuid::Uuid;

use crate::{
    duplicates::{resource_type, resource_types},
    harness::CREATE,
};

fn procedure(layer: &IdempotencyLayer, path: &str) -> Procedure {
    layer.procedures().find(|procedure| procedure.path() == path).unwrap_or_else(|| panic!("no {path}")).clone()
}

pub(crate) fn error(builder: IdempotencyLayerBuilder) -> String {
    match builder.build() {
        Err(BuildError::Procedure(error)) => error.to_string(),
        other => panic!("expected an error of a procedure, got {other:?}"),
    }
}

/// The error of a layer with this procedure, described in code.
pub(crate) fn error_of(procedure: ProcedureBuilder) -> String {
    error(IdempotencyLayer::builder(LOSSY_FILE_DESCRIPTOR_SET).procedure(procedure))
}

/// Compiles a proto file with these methods.
pub(crate) fn compile(methods: &str) -> DescriptorPool {
    compile_with(methods, None)
}

/// [`compile`] with another version of the proto file of the option.
pub(crate) fn compile_with(methods: &str, option: Option<&str>) -> DescriptorPool {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(Uuid::new_v4().to_string());
    let include = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../proto");
    fs::create_dir_all(folder.join("idempotency/v1")).expect("a folder");
    if let Some(option) = option {
        fs::write(folder.join("idempotency/v1/procedure.proto"), option).expect("a file");
    }
    let file = format!(
        "syntax = \"proto3\"; package written.v1; import \"idempotency/v1/procedure.proto\";
         message Request {{}}
         message Client {{ string name = 1; int64 sent_at = 2; }}
         message Sent {{ Client client = 1; int64 number = 2; map<string, Client> by_name = 3; }}
         message Response {{ string id = 1; int64 number = 2; repeated string ids = 3; Response inner = 4; bytes raw = 5;
                             map<string, string> map = 6; map<string, Response> by_name = 7;
                             repeated Response list = 8; }}
         enum Kind {{ NONE = 0; }}
         message Ids {{ string id = 1; bytes raw = 2; int32 int32 = 3; sint64 sint64 = 4; fixed32 fixed32 = 5;
                        uint64 uint64 = 6; bool flag = 7; double ratio = 8; repeated int64 list = 9; Kind kind = 10;
                        map<string, int64> ids = 11; }}
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
fn the_proto_option_and_the_builder_describe_the_same_procedure() {
    let option = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).build().expect("a layer");
    // Both from one pool: descriptors of different pools are never equal.
    let pool = procedure(&option, "/shop.v1.Shop/Pay").method().parent_pool().clone();
    let option = IdempotencyLayer::builder(pool.clone()).build().expect("a layer");
    let code = IdempotencyLayer::builder(pool)
        .procedure(Procedure::builder("/shop.v1.Shop/CreateOrder").creates("order", "order.id"))
        .procedure(
            Procedure::builder("shop.v1.Shop/Pay")
                .creates("payment", "payment_id")
                .key_policy(KeyPolicy::Required)
                .on_no_user(UserPolicy::Reject)
                .on_store_unavailable(StorePolicy::Reject)
                .on_lease_ended(LeasePolicy::Refuse)
                .lease(Duration::from_secs(60))
                .retention(Duration::from_secs(7 * 24 * 3600))
                .redact("secret")
                .redact("receipts.secret"),
        )
        .procedure(Procedure::builder("/shop.v1.Shop/Touch"))
        .procedure(
            Procedure::builder("/shop.v1.Shop/Cancel")
                .final_errors([Code::AlreadyExists, Code::FailedPrecondition])
                .on_in_progress(InProgressPolicy::Wait)
                .max_wait(Duration::from_secs(10))
                .on_foreign_reservation(ForeignPolicy::Rerun)
                .effect(EffectPolicy::SameServer)
                .expired_keys(ExpiredKeyPolicy::Refuse),
        )
        .build()
        .expect("a layer");
    for path in ["/shop.v1.Shop/CreateOrder", "/shop.v1.Shop/Pay", "/shop.v1.Shop/Touch", "/shop.v1.Shop/Cancel"] {
        assert_eq!(procedure(&option, path), procedure(&code, path));
    }
}

/// One layer for all services of a server, whose files are in several sets, and some in each.
#[test]
fn takes_several_descriptor_sets() {
    let sets: [&[u8]; 2] = [FILE_DESCRIPTOR_SET, catalog::FILE_DESCRIPTOR_SET];
    let paths = |descriptors: Descriptors| -> Vec<String> {
        let layer = IdempotencyLayer::builder(descriptors).adjust_procedures(|it| it.mode(Mode::Reserved));
        layer.build().expect("a layer").procedures().map(|procedure| procedure.path().to_owned()).collect()
    };
    let mut apart = sets.map(|set| paths(set.into())).concat();
    let mut together = paths(sets.into());
    assert!(apart.len() > 4 && apart.iter().any(|path| path.starts_with("/catalog.")), "{apart:?}");
    apart.sort();
    together.sort();
    assert_eq!(together, apart);
}

#[test]
fn the_builder_overrides_the_proto_option_field_by_field() {
    let pay = |procedures: Vec<ProcedureBuilder>| {
        let builder = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET);
        let layer = procedures.into_iter().fold(builder, |builder, procedure| builder.procedure(procedure)).build();
        procedure(&layer.expect("a layer"), "/shop.v1.Shop/Pay").clone()
    };
    let in_code = || Procedure::builder("/shop.v1.Shop/Pay");
    let option = pay(Vec::new());
    assert_eq!(option.policies().key_policy, KeyPolicy::Required);
    let lease = Duration::from_secs(7);
    let changed = pay(vec![
        in_code().key_policy(KeyPolicy::Optional).lease(2 * lease),
        // The later one overrides the earlier.
        in_code().lease(lease),
    ]);
    let expected = Policies { key_policy: KeyPolicy::Optional, lease, ..*option.policies() };
    assert_eq!((changed.creates(), *changed.policies()), (option.creates(), expected));
}

/// A limit that is not kept would be worse than none.
#[test]
fn the_records_of_a_caller_are_limited_only_by_a_store_that_can() {
    let limits = Limits { records: Some(10), ..Limits::default() };
    let builder = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(MemoryStore::new()).limits(limits);
    assert!(matches!(builder.build(), Err(BuildError::NoRecordLimit)));
}

#[test]
fn the_defaults_are_the_safe_ones() {
    let policies = Policies::default();
    assert_eq!((policies.on_store_unavailable, policies.on_no_user), (StorePolicy::Reject, UserPolicy::Reject));
    assert_eq!((policies.lease, policies.retention), (Duration::from_secs(60), Duration::from_secs(24 * 3600)));
}

#[test]
fn a_layer_that_degrades_gracefully_proceeds_unless_a_procedure_says_otherwise() {
    let lease = Duration::from_secs(7);
    // In any order with the layer's own policies.
    let builder = || IdempotencyLayer::builder(FILE_DESCRIPTOR_SET);
    let policies = Policies { lease, ..Policies::default() };
    for builder in
        [builder().degrade_gracefully().policies(policies), builder().policies(policies).degrade_gracefully()]
    {
        let layer = builder.build().expect("a layer");
        let proceeds = Policies { on_store_unavailable: StorePolicy::Proceed, ..policies };
        assert_eq!(*procedure(&layer, CREATE).policies(), proceeds);
        assert_eq!(procedure(&layer, "/shop.v1.Shop/Pay").policies().on_store_unavailable, StorePolicy::Reject);
    }
}

#[test]
fn a_procedure_that_leaves_a_setting_out_has_the_layers() {
    let policies = Policies { lease: Duration::from_secs(7), key_policy: KeyPolicy::Required, ..Policies::default() };
    let layer = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).policies(policies).build().expect("a layer");
    assert_eq!(*procedure(&layer, "/shop.v1.Shop/CreateOrder").policies(), policies);
    assert_eq!(procedure(&layer, "/shop.v1.Shop/Pay").policies().lease, Duration::from_secs(60));
}

#[test]
fn refuses_an_id_field_that_does_not_exist() {
    let message = error_of(Procedure::builder("/shop.v1.Shop/CreateOrder").creates("order", "order.uuid"));
    assert!(message.contains("/shop.v1.Shop/CreateOrder") && message.contains("order.uuid"), "{message}");
    let message = error_in_proto(
        "rpc Create(Request) returns (Response) {
           option (idempotency.v1.procedure) = { creates: { resource_type: 'a', id_field: 'uuid' } }; }",
    );
    assert!(message.contains("/written.v1.Service/Create") && message.contains("uuid"), "{message}");
}

#[test]
fn refuses_an_id_field_that_cannot_hold_an_id() {
    for field in ["ids", "inner", "map", "id.more", "ids.more", "inner.inner", ""] {
        let message = error_in_proto(&format!(
            "rpc Create(Request) returns (Response) {{
               option (idempotency.v1.procedure) = {{ creates: {{ resource_type: 'a', id_field: '{field}' }} }}; }}",
        ));
        assert!(message.contains("/written.v1.Service/Create"), "{field}: {message}");
    }
    for field in ["id", "number", "raw", "inner.id", "inner.inner.raw"] {
        let method = format!(
            "rpc Create(Request) returns (Response) {{
               option (idempotency.v1.procedure) = {{ creates: {{ resource_type: 'a', id_field: '{field}' }} }}; }}",
        );
        IdempotencyLayer::builder(compile(&method)).build().expect(field);
    }
}

#[test]
fn the_option_and_the_builder_say_where_the_key_is_and_which_form_it_has() {
    let pool = compile(
        "rpc Create(Response) returns (Response) {
           option (idempotency.v1.procedure) = { key_field: 'inner.id', key_format: KEY_FORMAT_ANY }; }
         rpc Update(Response) returns (Response) { option (idempotency.v1.procedure) = {}; }",
    );
    let option = IdempotencyLayer::builder(pool.clone()).build().expect("a layer");
    let code = IdempotencyLayer::builder(pool)
        .procedure(Procedure::builder("written.v1.Service/Create").key_field("inner.id").key_format(KeyFormat::Any))
        .build()
        .expect("a layer");
    let create = procedure(&option, "/written.v1.Service/Create");
    assert_eq!(create, procedure(&code, "/written.v1.Service/Create"));
    assert_eq!((create.key_field(), create.policies().key_format), (Some("inner.id"), KeyFormat::Any));
    let update = procedure(&option, "/written.v1.Service/Update");
    assert_eq!((update.key_field(), update.policies().key_format), (None, KeyFormat::Uuid));
}

#[test]
fn refuses_a_key_field_that_does_not_exist_or_cannot_hold_a_key() {
    for field in ["uuid", "id.more", "inner.uuid", "inner.inner.uuid", "inner.", ".id", "."] {
        let message = error_of_key_field(field);
        assert!(message.contains("/written.v1.Service/Create") && message.contains(&format!("{field:?}")), "{message}");
        assert!(message.contains("no such field"), "{message}");
    }
    for field in ["number", "ids", "inner", "map", "by_name", "map.more", "by_name.id", "inner.ids", "list.id"] {
        let message = error_of_key_field(field);
        assert!(message.contains("/written.v1.Service/Create") && message.contains(&format!("{field:?}")), "{message}");
    }
    for field in ["id", "raw", "inner.id", "inner.inner.raw"] {
        IdempotencyLayer::builder(compile(&with_key_field(field))).build().expect(field);
    }
}

fn with_key_field(field: &str) -> String {
    format!(
        "rpc Create(Response) returns (Response) {{ option (idempotency.v1.procedure) = {{ key_field: '{field}' }}; }}"
    )
}

fn error_of_key_field(field: &str) -> String {
    error(IdempotencyLayer::builder(compile(&with_key_field(field))).store(MemoryStore::new()))
}

/// A store that never connects to a database.
pub(crate) fn postgres(types: ResourceTypes) -> PostgresStore {
    let pool = deadpool_postgres::Manager::new(tokio_postgres::Config::new(), tokio_postgres::NoTls);
    PostgresStore::new(deadpool_postgres::Pool::builder(pool).build().expect("a pool"), types)
}

#[test]
fn refuses_a_resource_type_that_the_store_does_not_know() {
    IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(postgres(resource_types())).build().expect("a layer");
    let message = error(
        IdempotencyLayer::builder(LOSSY_FILE_DESCRIPTOR_SET)
            .store(postgres(organization::resource_types()))
            .procedure(Procedure::builder("/shop.v1.Shop/CreateOrder").creates("order", "order.id")),
    );
    assert!(message.contains("/shop.v1.Shop/CreateOrder") && message.contains("\"order\""), "{message}");
    assert!(message.contains("project"), "it lists the known types: {message}");
}

#[test]
fn refuses_a_created_resource_whose_status_nobody_reports() {
    let types = || ResourceTypes::new([resource_type("order"), resource_type("payment").tracked()]);
    let message = error(IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(postgres(types())));
    assert!(message.contains(CREATE) && message.contains("\"order\""), "{message}");
    for remedy in ["ResourceType::tracked", "status_resolver", "untracked: true", "creates_untracked"] {
        assert!(message.contains(remedy), "it says what to do: {message}");
    }

    let builder = || IdempotencyLayer::builder(FILE_DESCRIPTOR_SET);
    let elsewhere = StatusFromStore(MemoryStore::new());
    builder().store(postgres(types())).status_resolver(elsewhere).build().expect("the resolver reports it");
    builder().store(MemoryStore::new()).build().expect("the store reports all");
    builder().build().expect("without a store there are no replays");
    let untracked = Procedure::builder(CREATE).creates_untracked("order", "order.id");
    builder().store(postgres(types())).procedure(untracked).build().expect("there is nothing to report");
}

#[test]
fn the_option_and_the_builder_say_that_a_resource_is_not_tracked() {
    for (option, tracked) in [("", true), ("untracked: false", true), ("untracked: true", false)] {
        let pool = compile(&format!(
            "rpc Create(Request) returns (Response) {{ option (idempotency.v1.procedure) = {{
               creates: {{ resource_type: 'a', id_field: 'id' {option} }} }}; }}"
        ));
        let option = IdempotencyLayer::builder(pool.clone()).build().expect("a layer");
        let path = "/written.v1.Service/Create";
        let code = Procedure::builder(path);
        let code = if tracked { code.creates("a", "id") } else { code.creates_untracked("a", "id") };
        let code = IdempotencyLayer::builder(pool).procedure(code).build().expect("a layer");
        assert_eq!(procedure(&option, path), procedure(&code, path));
        assert_eq!(procedure(&option, path).creates().expect("a resource").tracked, tracked);
    }
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
fn refuses_a_procedure_that_does_not_exist() {
    for path in ["/shop.v1.Shop/CreateOrders", "/shop.v1.Shops/CreateOrder", "nonsense"] {
        let message = error_of(Procedure::builder(path));
        assert!(message.contains(path), "{message}");
    }
}

#[test]
fn refuses_to_redact_a_field_that_does_not_exist() {
    for field in ["secrets", "receipts.secrets", "secret.more", ""] {
        let message = error_of(Procedure::builder("/shop.v1.Shop/Pay").redact(field));
        assert!(message.contains("/shop.v1.Shop/Pay") && message.contains(field), "{message}");
    }
    // The entries of a map have no fields of their own, and values that are no messages have none.
    for field in ["by_name.value", "by_name.value.id", "map.value", "map.key"] {
        let option = format!("option (idempotency.v1.procedure) = {{ redact: \"{field}\" }};");
        let message = error_in_proto(&format!("rpc Create(Request) returns (Response) {{ {option} }}"));
        assert!(message.contains("/written.v1.Service/Create") && message.contains(field), "{message}");
    }
}

#[test]
fn refuses_to_ignore_a_field_that_does_not_exist() {
    let request = |fields: &str| format!("ignore: [{fields}]");
    for (fields, named) in [
        (r#""sent""#, "sent"),
        (r#""number", "client.sent""#, "client.sent"),
        (r#""number.value""#, "number.value"),
        (r#""by_name.key""#, "by_name.key"),
        (r#""""#, r#"field """#),
    ] {
        let message = error_of_ignoring(&request(fields));
        assert!(message.contains("/written.v1.Service/Create") && message.contains(named), "{message}");
    }
    let message = error_of(Procedure::builder("/shop.v1.Shop/Pay").ignore("nothing"));
    assert!(message.contains("/shop.v1.Shop/Pay") && message.contains("nothing"), "{message}");
}

#[test]
fn refuses_paths_that_repeat_or_cross_each_other() {
    for setting in ["ignore", "redact"] {
        for (fields, named) in [
            (r#""id", "id""#, "id"),
            (r#""inner.id", "number", "inner.id""#, "inner.id"),
            (r#""inner.inner.id", "inner.inner""#, "inner.inner.id"),
            (r#""by_name", "by_name.id""#, "by_name.id"),
        ] {
            let option = format!("option (idempotency.v1.procedure) = {{ {setting}: [{fields}] }};");
            let message = error_in_proto(&format!("rpc Create(Response) returns (Response) {{ {option} }}"));
            let is_named = |text: &str| message.contains(text);
            assert!(is_named("/written.v1.Service/Create") && is_named(setting) && is_named(named), "{message}");
        }
        let option =
            format!("option (idempotency.v1.procedure) = {{ {setting}: [\"inner.id\", \"inner.ids\", \"id\"] }};");
        let pool = compile(&format!("rpc Create(Response) returns (Response) {{ {option} }}"));
        assert!(IdempotencyLayer::builder(pool).build().is_ok(), "siblings do not cross");
    }
}

#[test]
fn refuses_to_ignore_the_whole_request() {
    for (fields, is_refused) in [
        (r#""client", "number", "by_name""#, true),
        (r#""client.sent_at", "client.name", "number", "by_name""#, true),
        (r#""client.sent_at", "number", "by_name""#, false),
        // Which keys there are remains.
        (r#""client", "number", "by_name.sent_at", "by_name.name""#, false),
    ] {
        let built = IdempotencyLayer::builder(compile_ignoring(&format!("ignore: [{fields}]"))).build();
        let message = built.err().map(|error| error.to_string());
        assert_eq!(message.is_some(), is_refused, "{fields}: {message:?}");
        assert!(message.is_none_or(|message| message.contains("/written.v1.Service/Create")), "{fields}");
    }
}

fn compile_ignoring(option: &str) -> DescriptorPool {
    compile(&format!("rpc Create(Sent) returns (Response) {{ option (idempotency.v1.procedure) = {{ {option} }}; }}"))
}

fn error_of_ignoring(option: &str) -> String {
    error(IdempotencyLayer::builder(compile_ignoring(option)))
}

#[test]
fn refuses_to_redact_a_type_of_error_details_that_does_not_exist() {
    for detail in ["google.rpc.DebugInformation", "DebugInfo", ".google.rpc.DebugInfo", ""] {
        let message = error_of(Procedure::builder("/shop.v1.Shop/Pay").redact_error_details(detail));
        assert!(message.contains("/shop.v1.Shop/Pay") && message.contains(detail), "{message}");
    }
    for detail in ["google.rpc.DebugInfo", "shop.v1.Order", "*"] {
        let procedure = Procedure::builder("/shop.v1.Shop/Pay").redact_error_details(detail);
        let builder = IdempotencyLayer::builder(LOSSY_FILE_DESCRIPTOR_SET).procedure(procedure);
        assert!(builder.build().is_ok(), "{detail}");
    }
}

#[test]
fn refuses_a_lease_or_a_retention_that_is_not_positive_or_too_long() {
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
fn refuses_a_max_wait_of_zero_or_of_more_than_an_hour() {
    let hour = Duration::from_secs(3600);
    for max_wait in [Duration::ZERO, hour + Duration::from_nanos(1), Duration::MAX] {
        let message = error_of(Procedure::builder(CREATE).max_wait(max_wait));
        assert!(message.contains(CREATE) && message.contains("max_wait"), "{message}");
        assert!(message.contains("more than zero and at most 3600 s"), "it says what to do: {message}");
        // The layer's own, for a procedure that does not set it.
        let policies = Policies { max_wait, ..Policies::default() };
        let message = error(
            IdempotencyLayer::builder(LOSSY_FILE_DESCRIPTOR_SET)
                .policies(policies)
                .procedure(Procedure::builder(CREATE)),
        );
        assert!(message.contains(CREATE) && message.contains("max_wait"), "{message}");
    }
    for seconds in ["0", "-1", "3601", "315576000000"] {
        let message = error_in_proto(&format!(
            "rpc Create(Request) returns (Response) {{
               option (idempotency.v1.procedure) = {{ max_wait: {{ seconds: {seconds} }} }}; }}"
        ));
        assert!(message.contains("/written.v1.Service/Create") && message.contains("max_wait"), "{message}");
        assert!(message.contains("more than zero and at most 3600 s"), "it says what to do: {message}");
    }
    for max_wait in [Duration::from_nanos(1), hour] {
        let layer = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET)
            .procedure(Procedure::builder(CREATE).max_wait(max_wait))
            .build()
            .expect("a layer");
        assert_eq!(procedure(&layer, CREATE).policies().max_wait, max_wait);
    }
}

#[test]
fn refuses_a_transactional_procedure_if_the_store_has_no_transactions() {
    let transactional = || {
        IdempotencyLayer::builder(LOSSY_FILE_DESCRIPTOR_SET)
            .procedure(Procedure::builder(CREATE).creates("order", "order.id").mode(Mode::Transactional))
    };
    let in_proto = "rpc Create(Request) returns (Response) {
                      option (idempotency.v1.procedure) = { mode: MODE_TRANSACTIONAL }; }";
    for (message, path) in [
        (error(transactional().store(MemoryStore::new())), CREATE),
        (error_in_proto(in_proto), "/written.v1.Service/Create"),
    ] {
        assert!(message.contains(path) && message.contains("transactional"), "{message}");
        assert!(message.contains("use PostgresStore, or mode reserved"), "it says what to do: {message}");
    }
    let layer = transactional().store(postgres(resource_types())).build().expect("PostgreSQL has transactions");
    assert_eq!(procedure(&layer, CREATE).policies().mode, Mode::Transactional);
    // Without a store nothing is protected, so transactions are not missing.
    transactional().build().expect("a layer");
}

/// Each setting, in the mode that ignores it and in the one that does not.
#[test]
fn refuses_a_setting_that_has_no_effect_in_the_mode_of_the_procedure() {
    type Set = fn(ProcedureBuilder) -> ProcedureBuilder;
    let settings: [(&str, Mode, Set); 4] = [
        ("isolation", Mode::Transactional, |it| it.isolation(Isolation::ReadCommitted)),
        ("on_disconnect ROLL_BACK", Mode::Transactional, |it| it.on_disconnect(DisconnectPolicy::RollBack)),
        ("transaction_idle", Mode::Transactional, |it| it.transaction_idle(Duration::from_secs(20))),
        ("effect SAME_SERVER", Mode::Reserved, |it| it.effect(EffectPolicy::SameServer)),
    ];
    for (name, mode, set) in settings {
        let names = ["reserved", "transactional"];
        let (other, [has, lacks]) = match mode {
            Mode::Reserved => (Mode::Transactional, names),
            _ => (Mode::Reserved, [names[1], names[0]]),
        };
        let message = error_of(set(Procedure::builder(CREATE).mode(other)));
        let says = format!(
            "{CREATE}: {name}: it has no effect on a {lacks} procedure; make the procedure {has}, or leave it out"
        );
        assert!(message.contains(&says), "{message}");
        let layer =
            IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).procedure(set(Procedure::builder(CREATE).mode(mode)));
        layer.build().unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let in_proto = "rpc Create(Request) returns (Response) {
                      option (idempotency.v1.procedure) = { on_disconnect: DISCONNECT_POLICY_ROLL_BACK }; }";
    assert!(error_in_proto(in_proto).contains("/written.v1.Service/Create: on_disconnect ROLL_BACK"));
    // As a layer's default it applies to the procedures of its mode only.
    let policies = Policies { on_disconnect: DisconnectPolicy::RollBack, ..Policies::default() };
    IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).policies(policies).build().expect("a layer");
}

#[test]
fn refuses_a_code_that_cannot_be_a_final_error() {
    let message = error_of(Procedure::builder(CREATE).final_errors([Code::NotFound, Code::Unavailable]));
    assert!(message.contains(CREATE) && message.contains("Unavailable"), "{message}");
    assert!(message.contains("may succeed later") && message.contains("leave it out"), "{message}");
    let message = error_of(Procedure::builder(CREATE).final_errors([Code::Ok]));
    assert!(
        message.contains(CREATE) && message.contains("not an error") && message.contains("leave it out"),
        "{message}"
    );
}

#[test]
fn adjusts_procedures_described_in_proto_and_in_code() {
    let layer = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET)
        .procedure(Procedure::builder("/shop.v1.Shop/GetOrder").lease(Duration::from_secs(7)))
        .adjust_procedures(|procedure| match procedure.path() {
            "/shop.v1.Shop/Pay" | "/shop.v1.Shop/GetOrder" => procedure.lease(Duration::from_secs(9)),
            _ => procedure.on_in_progress(InProgressPolicy::Wait),
        })
        .build()
        .expect("a layer");
    for path in ["/shop.v1.Shop/Pay", "/shop.v1.Shop/GetOrder"] {
        let policies = *procedure(&layer, path).policies();
        assert_eq!((policies.lease.as_secs(), policies.on_in_progress), (9, InProgressPolicy::Abort));
    }
    // Other settings stay.
    assert_eq!(procedure(&layer, "/shop.v1.Shop/Pay").policies().key_policy, KeyPolicy::Required);
    let touch = *procedure(&layer, "/shop.v1.Shop/Touch").policies();
    assert_eq!(touch, Policies { on_in_progress: InProgressPolicy::Wait, ..Policies::default() });
}

#[test]
fn does_not_adjust_procedures_that_are_not_opted_in() {
    let layer = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET)
        .adjust_procedures(|procedure| {
            assert_ne!(procedure.path(), "/shop.v1.Shop/GetOrder");
            procedure.key_policy(KeyPolicy::Required)
        })
        .build()
        .expect("a layer");
    assert!(layer.procedures().all(|procedure| procedure.policies().key_policy == KeyPolicy::Required));
    assert_eq!(layer.procedures().count(), 4);
}

#[test]
fn refuses_an_invalid_result_of_an_adjustment() {
    let message =
        error(IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).adjust_procedures(|procedure| match procedure.path() {
            CREATE => procedure.lease(Duration::ZERO),
            _ => procedure,
        }));
    assert!(message.contains(CREATE) && message.contains("lease"), "{message}");
    // An adjustment may remove a mode that the store does not support.
    IdempotencyLayer::builder(LOSSY_FILE_DESCRIPTOR_SET)
        .store(MemoryStore::new())
        .procedure(Procedure::builder(CREATE).mode(Mode::Transactional))
        .adjust_procedures(|procedure| procedure.mode(Mode::Reserved))
        .build()
        .expect("a layer");
}

#[test]
fn debug_output_ends_for_messages_that_contain_themselves() {
    let method = "rpc Create(Request) returns (Response) { option (idempotency.v1.procedure) = {}; }";
    let pool = compile(method);
    let printed = format!("{:?}", Descriptors::from(pool.clone()));
    assert!(printed.contains("written.v1.Service"), "{printed}");
    let printed = format!("{:?}", Descriptors::from(b"nonsense"));
    assert!(printed.contains("Err"), "{printed}");
    let builder = IdempotencyLayer::builder(pool).store(MemoryStore::new());
    assert!(format!("{builder:?}").contains("policies"), "{builder:?}");
    let layer = builder.build().expect("a layer");
    let path = "/written.v1.Service/Create";
    assert!(format!("{layer:?}").contains(path), "{layer:?}");
    let printed = format!("{:?}", procedure(&layer, path));
    assert!(printed.contains(path) && printed.contains("on_lease_ended"), "{printed}");
}

#[test]
fn refuses_bytes_that_are_not_descriptors() {
    let error = IdempotencyLayer::builder(b"nonsense").build().expect_err("not descriptors");
    assert!(matches!(error, BuildError::Descriptors(_)), "{error}");
}
