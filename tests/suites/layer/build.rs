//! Building a layer: valid settings, and the errors of invalid ones.

use std::{fs, path::PathBuf};

use tonic_idempotency::{
    layer::Descriptors,
    policy::{DisconnectPolicy, ExpiredKeyPolicy, Isolation, KeyPolicy},
    store::StatusFromStore,
};
use tonic_idempotency_tests::{catalog, shop::LOSSY_FILE_DESCRIPTOR_SET};

use crate::prelude::*;
use crate::{
    final_errors::NEVER_FINAL,
    harness::{resource_type, resource_types},
};

fn procedure(layer: &IdempotencyLayer, path: &str) -> Procedure {
    layer.procedures().find(|procedure| procedure.path() == path).unwrap_or_else(|| panic!("no {path}")).clone()
}

pub(crate) fn error(builder: IdempotencyLayerBuilder) -> String {
    error_in("a layer", builder)
}

/// The error of a layer with this procedure, described in code.
fn error_of(procedure: ProcedureBuilder) -> String {
    let case = format!("{procedure:?}");
    error_in(&case, IdempotencyLayer::builder(LOSSY_FILE_DESCRIPTOR_SET).procedure(procedure))
}

fn error_in(case: &str, builder: IdempotencyLayerBuilder) -> String {
    match builder.build() {
        Err(BuildError::Procedure(error)) => error.to_string(),
        other => panic!("{case}: expected an error of a procedure, got {other:?}"),
    }
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

const PAY: &str = "/shop.v1.Shop/Pay";

/// A method with this request and this option.
pub(crate) fn method(request: &str, option: &str) -> String {
    format!("rpc Create({request}) returns (Response) {{ option (idempotency.v1.procedure) = {{ {option} }}; }}")
}

const WRITTEN: &str = "/written.v1.Service/Create";

/// Asserts that a layer with this method is refused, with an error that names it and has these texts.
#[track_caller]
fn assert_refuses(request: &str, option: &str, texts: &[&str]) {
    let builder = IdempotencyLayer::builder(compile(&method(request, option))).store(MemoryStore::new());
    let message = error_in(option, builder);
    assert_says(option, &message, &[&[WRITTEN], texts].concat());
}

#[track_caller]
fn assert_takes(request: &str, option: &str) {
    IdempotencyLayer::builder(compile(&method(request, option))).build().expect(option);
}

#[track_caller]
fn assert_says(case: &str, message: &str, texts: &[&str]) {
    for text in texts {
        assert!(message.contains(text), "{case}: no {text:?} in {message}");
    }
}

#[test]
fn the_proto_option_and_the_builder_describe_the_same_procedure() {
    let option = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).build().expect("a layer");
    // Both from one pool: descriptors of different pools are never equal.
    let pool = procedure(&option, PAY).method().expect("it is one of a service").parent_pool().clone();
    let option = IdempotencyLayer::builder(pool.clone()).build().expect("a layer");
    let code = IdempotencyLayer::builder(pool)
        .procedure(Procedure::builder(CREATE).creates("order", "order.id"))
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
    for path in [CREATE, PAY, "/shop.v1.Shop/Touch", "/shop.v1.Shop/Cancel"] {
        assert_eq!(procedure(&option, path), procedure(&code, path));
    }
}

#[test]
fn an_option_and_the_builder_say_the_same() {
    type Set = fn(ProcedureBuilder) -> ProcedureBuilder;
    let rows: [(&str, Set); 5] = [
        ("", |it| it),
        ("creates: { resource_type: 'a', id_field: 'id' }", |it| it.creates("a", "id")),
        ("creates: { resource_type: 'a', id_field: 'id' untracked: false }", |it| it.creates("a", "id")),
        ("creates: { resource_type: 'a', id_field: 'id' untracked: true }", |it| it.creates_untracked("a", "id")),
        ("key_field: 'inner.id', key_format: KEY_FORMAT_ANY", |it| it.key_field("inner.id").key_format(KeyFormat::Any)),
    ];
    let mut seen = Vec::new();
    for (option, set) in rows {
        let pool = compile(&method("Response", option));
        let code = IdempotencyLayer::builder(pool.clone()).procedure(set(Procedure::builder(WRITTEN)));
        let [code, option] = [code, IdempotencyLayer::builder(pool)].map(|it| it.build().expect("a layer"));
        let option = procedure(&option, WRITTEN);
        assert_eq!(option, procedure(&code, WRITTEN));
        let is_tracked = option.creates().map(|resource| resource.tracked);
        seen.push((is_tracked, option.key_field().map(str::to_owned), option.policies().key_format));
    }
    let without = |is_tracked| (is_tracked, None, KeyFormat::Uuid);
    let in_field = (None, Some("inner.id".to_owned()), KeyFormat::Any);
    assert_eq!(seen, [without(None), without(Some(true)), without(Some(true)), without(Some(false)), in_field]);
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
        procedure(&layer.expect("a layer"), PAY).clone()
    };
    let in_code = || Procedure::builder(PAY);
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
fn a_procedure_that_leaves_a_setting_out_has_the_layers() {
    let policies = Policies { lease: Duration::from_secs(7), key_policy: KeyPolicy::Required, ..proceeding() };
    let layer = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).policies(policies).build().expect("a layer");
    assert_eq!(*procedure(&layer, CREATE).policies(), policies);
    let own = *procedure(&layer, PAY).policies();
    assert_eq!((own.lease.as_secs(), own.on_store_unavailable), (60, StorePolicy::Reject));
}

#[test]
fn refuses_an_id_field_that_does_not_exist_or_cannot_hold_an_id() {
    let message = error_of(Procedure::builder(CREATE).creates("order", "order.uuid"));
    assert_says("in code", &message, &[CREATE, "order.uuid"]);
    let option = |field: &str| format!("creates: {{ resource_type: 'a', id_field: '{field}' }}");
    for field in ["uuid", "ids", "inner", "map", "id.more", "ids.more", "inner.inner", ""] {
        assert_refuses("Request", &option(field), &[field]);
    }
    for field in ["id", "number", "raw", "inner.id", "inner.inner.raw"] {
        assert_takes("Request", &option(field));
    }
}

#[test]
fn refuses_a_key_field_that_does_not_exist_or_cannot_hold_a_key() {
    let option = |field: &str| format!("key_field: '{field}'");
    for field in ["uuid", "id.more", "inner.uuid", "inner.inner.uuid", "inner.", ".id", "."] {
        assert_refuses("Response", &option(field), &[&format!("{field:?}"), "no such field"]);
    }
    for field in ["number", "ids", "inner", "map", "by_name", "map.more", "by_name.id", "inner.ids", "list.id"] {
        assert_refuses("Response", &option(field), &[&format!("{field:?}")]);
    }
    for field in ["id", "raw", "inner.id", "inner.inner.raw"] {
        assert_takes("Response", &option(field));
    }
}

/// A store that never connects to a database.
pub(crate) fn unconnected(types: ResourceTypes) -> PostgresStore {
    let pool = deadpool_postgres::Manager::new(tokio_postgres::Config::new(), tokio_postgres::NoTls);
    PostgresStore::new(deadpool_postgres::Pool::builder(pool).build().expect("a pool"), types)
}

#[test]
fn refuses_a_resource_type_that_the_store_does_not_know() {
    IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(unconnected(resource_types())).build().expect("a layer");
    let of_organization = unconnected(organization::resource_types());
    let order = Procedure::builder(CREATE).creates("order", "order.id");
    let builder = IdempotencyLayer::builder(LOSSY_FILE_DESCRIPTOR_SET).store(of_organization).procedure(order);
    assert_says("it lists the known types", &error(builder), &[CREATE, "\"order\"", "project"]);
}

#[test]
fn refuses_a_created_resource_whose_status_nobody_reports() {
    let types = || ResourceTypes::new([resource_type("order"), resource_type("payment").tracked()]);
    let builder = || IdempotencyLayer::builder(FILE_DESCRIPTOR_SET);
    let remedies = ["ResourceType::tracked", "status_resolver", "untracked: true", "creates_untracked"];
    let message = error(builder().store(unconnected(types())));
    assert_says("it says what to do", &message, &[&[CREATE, "\"order\""][..], &remedies].concat());

    let elsewhere = StatusFromStore(MemoryStore::new());
    builder().store(unconnected(types())).status_resolver(elsewhere).build().expect("the resolver reports it");
    builder().store(MemoryStore::new()).build().expect("the store reports all");
    builder().build().expect("without a store there are no replays");
    let untracked = Procedure::builder(CREATE).creates_untracked("order", "order.id");
    builder().store(unconnected(types())).procedure(untracked).build().expect("there is nothing to report");
}

#[test]
fn refuses_a_procedure_that_streams_or_does_not_exist() {
    let watch = "/shop.v1.Shop/WatchOrders";
    assert_says(watch, &error_of(Procedure::builder(watch)), &[watch, "streaming"]);
    assert_refuses("stream Request", "", &["streaming"]);
    let streams = method("Request", "").replace("returns (", "returns (stream ");
    assert_says("a response", &error(IdempotencyLayer::builder(compile(&streams))), &[WRITTEN, "streaming"]);
    for path in ["/shop.v1.Shop/CreateOrders", "/shop.v1.Shops/CreateOrder", "nonsense"] {
        assert_says(path, &error_of(Procedure::builder(path)), &[path]);
    }
}

#[test]
fn refuses_to_redact_or_ignore_a_field_that_does_not_exist() {
    for field in ["secrets", "receipts.secrets", "secret.more", ""] {
        assert_says(field, &error_of(Procedure::builder(PAY).redact(field)), &[PAY, field]);
    }
    assert_says("ignore", &error_of(Procedure::builder(PAY).ignore("nothing")), &[PAY, "nothing"]);
    // The entries of a map have no fields of their own, and values that are no messages have none.
    for field in ["by_name.value", "by_name.value.id", "map.value", "map.key"] {
        assert_refuses("Request", &format!("redact: '{field}'"), &[field]);
    }
    for (fields, named) in [
        ("'sent'", "sent"),
        ("'number', 'client.sent'", "client.sent"),
        ("'number.value'", "number.value"),
        ("'by_name.key'", "by_name.key"),
        ("''", r#"field """#),
    ] {
        assert_refuses("Sent", &format!("ignore: [{fields}]"), &[named]);
    }
}

#[test]
fn refuses_paths_that_repeat_or_cross_each_other() {
    for setting in ["ignore", "redact"] {
        for (fields, named) in [
            ("'id', 'id'", "id"),
            ("'inner.id', 'number', 'inner.id'", "inner.id"),
            ("'inner.inner.id', 'inner.inner'", "inner.inner.id"),
            ("'by_name', 'by_name.id'", "by_name.id"),
        ] {
            assert_refuses("Response", &format!("{setting}: [{fields}]"), &[setting, named]);
        }
        // Siblings do not cross.
        assert_takes("Response", &format!("{setting}: ['inner.id', 'inner.ids', 'id']"));
    }
}

#[test]
fn refuses_to_ignore_the_whole_request() {
    for fields in ["'client', 'number', 'by_name'", "'client.sent_at', 'client.name', 'number', 'by_name'"] {
        assert_refuses("Sent", &format!("ignore: [{fields}]"), &[]);
    }
    // Of a map whose values are ignored, the keys remain.
    for fields in ["'client.sent_at', 'number', 'by_name'", "'client', 'number', 'by_name.sent_at', 'by_name.name'"] {
        assert_takes("Sent", &format!("ignore: [{fields}]"));
    }
}

#[test]
fn refuses_to_redact_a_type_of_error_details_that_does_not_exist() {
    let redacting = |detail| Procedure::builder(PAY).redact_error_details(detail);
    for detail in ["google.rpc.DebugInformation", "DebugInfo", ".google.rpc.DebugInfo", ""] {
        assert_says(detail, &error_of(redacting(detail)), &[PAY, detail]);
    }
    for detail in ["google.rpc.DebugInfo", "shop.v1.Order", "*"] {
        let builder = IdempotencyLayer::builder(LOSSY_FILE_DESCRIPTOR_SET).procedure(redacting(detail));
        assert!(builder.build().is_ok(), "{detail}");
    }
}

#[test]
fn refuses_a_duration_that_is_not_positive_or_too_long() {
    let says = "more than zero and at most 3600 s";
    for (option, texts) in [
        ("lease: { seconds: 0 }", ["lease", ""]),
        ("lease: { seconds: -1 }", ["lease", ""]),
        ("lease: { seconds: 315576000000 }", ["lease", ""]),
        ("retention: { seconds: -1 }", ["retention", ""]),
        ("retention: {}", ["retention", ""]),
        ("max_wait: { seconds: 0 }", ["max_wait", says]),
        ("max_wait: { seconds: -1 }", ["max_wait", says]),
        ("max_wait: { seconds: 3601 }", ["max_wait", says]),
        ("max_wait: { seconds: 315576000000 }", ["max_wait", says]),
    ] {
        assert_refuses("Request", option, &texts);
    }
    let hour = Duration::from_secs(3600);
    for max_wait in [Duration::ZERO, hour + Duration::from_nanos(1), Duration::MAX] {
        let message = error_of(Procedure::builder(CREATE).max_wait(max_wait));
        assert_says("of a procedure", &message, &[CREATE, "max_wait", says]);
        let policies = Policies { max_wait, ..Policies::default() };
        let builder = IdempotencyLayer::builder(LOSSY_FILE_DESCRIPTOR_SET).policies(policies);
        let message = error(builder.procedure(Procedure::builder(CREATE)));
        assert_says("of the layer, for a procedure that does not set it", &message, &[CREATE, "max_wait"]);
    }
    for max_wait in [Duration::from_nanos(1), hour] {
        let create = Procedure::builder(CREATE).max_wait(max_wait);
        let layer = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).procedure(create).build().expect("a layer");
        assert_eq!(procedure(&layer, CREATE).policies().max_wait, max_wait);
    }
}

#[test]
fn refuses_a_transactional_procedure_if_the_store_has_no_transactions() {
    let transactional = || {
        IdempotencyLayer::builder(LOSSY_FILE_DESCRIPTOR_SET)
            .procedure(Procedure::builder(CREATE).creates("order", "order.id").mode(Mode::Transactional))
    };
    let remedy = "use PostgresStore, or mode reserved";
    assert_says("in code", &error(transactional().store(MemoryStore::new())), &[CREATE, "transactional", remedy]);
    assert_refuses("Request", "mode: MODE_TRANSACTIONAL", &["transactional", remedy]);
    let layer = transactional().store(unconnected(resource_types())).build().expect("PostgreSQL has transactions");
    assert_eq!(procedure(&layer, CREATE).policies().mode, Mode::Transactional);
    // Without a store nothing is protected, so transactions are not missing.
    transactional().build().expect("a layer");
}

/// Each setting, in the mode that ignores it and in the one that does not.
#[test]
fn refuses_a_setting_that_has_no_effect_in_the_mode_of_the_procedure() {
    type Set = fn(ProcedureBuilder) -> ProcedureBuilder;
    let (reserved, transactional) = ((Mode::Reserved, "reserved"), (Mode::Transactional, "transactional"));
    let settings: [(&str, [_; 2], Set); 4] = [
        ("isolation", [transactional, reserved], |it| it.isolation(Isolation::ReadCommitted)),
        ("on_disconnect ROLL_BACK", [transactional, reserved], |it| it.on_disconnect(DisconnectPolicy::RollBack)),
        ("transaction_idle", [transactional, reserved], |it| it.transaction_idle(Duration::from_secs(20))),
        ("effect SAME_SERVER", [reserved, transactional], |it| it.effect(EffectPolicy::SameServer)),
    ];
    for (name, [(mode, has), (other, lacks)], set) in settings {
        let says = format!(
            "{CREATE}: {name}: it has no effect on a {lacks} procedure; make the procedure {has}, or leave it out"
        );
        assert_says(name, &error_of(set(Procedure::builder(CREATE).mode(other))), &[&says]);
        let create = set(Procedure::builder(CREATE).mode(mode));
        IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).procedure(create).build().expect(name);
    }
    let says = format!("{WRITTEN}: on_disconnect ROLL_BACK");
    assert_refuses("Request", "on_disconnect: DISCONNECT_POLICY_ROLL_BACK", &[&says]);
    // As a layer's default it applies to the procedures of its mode only.
    let policies = Policies { on_disconnect: DisconnectPolicy::RollBack, ..Policies::default() };
    IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).policies(policies).build().expect("a layer");
}

#[test]
fn refuses_a_code_that_cannot_be_a_final_error() {
    for code in (0..=16).map(Code::from_i32) {
        let create = Procedure::builder(CREATE).final_errors([Code::NotFound, code]);
        if NEVER_FINAL.contains(&code) {
            let why = if code == Code::Ok { "not an error" } else { "may succeed later" };
            assert_says("it says what to do", &error_of(create), &[CREATE, &format!("{code:?}"), why, "leave it out"]);
        } else {
            let layer = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).procedure(create).build().expect("a layer");
            assert!(procedure(&layer, CREATE).policies().final_errors.contains(code), "{code:?}");
        }
    }
}

#[test]
fn adjusts_procedures_described_in_proto_and_in_code() {
    let layer = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET)
        .procedure(Procedure::builder("/shop.v1.Shop/GetOrder").lease(Duration::from_secs(7)))
        .adjust_procedures(|procedure| match procedure.path() {
            PAY | "/shop.v1.Shop/GetOrder" => procedure.lease(Duration::from_secs(9)),
            _ => procedure.on_in_progress(InProgressPolicy::Wait),
        })
        .build()
        .expect("a layer");
    for path in [PAY, "/shop.v1.Shop/GetOrder"] {
        let policies = *procedure(&layer, path).policies();
        assert_eq!((policies.lease.as_secs(), policies.on_in_progress), (9, InProgressPolicy::Abort));
    }
    // Other settings stay.
    assert_eq!(procedure(&layer, PAY).policies().key_policy, KeyPolicy::Required);
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
    let no_lease = |procedure: ProcedureBuilder| match procedure.path() {
        CREATE => procedure.lease(Duration::ZERO),
        _ => procedure,
    };
    let message = error(IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).adjust_procedures(no_lease));
    assert_says("an adjustment", &message, &[CREATE, "lease"]);
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
    let pool = compile(&method("Request", ""));
    let descriptors = format!("{:?}", Descriptors::from(pool.clone()));
    let builder = IdempotencyLayer::builder(pool).store(MemoryStore::new());
    let of_builder = format!("{builder:?}");
    let layer = builder.build().expect("a layer");
    for (what, printed, texts) in [
        ("descriptors", descriptors, ["written.v1.Service", ""]),
        ("no descriptors", format!("{:?}", Descriptors::from(b"nonsense")), ["Err", ""]),
        ("a builder", of_builder, ["policies", ""]),
        ("a layer", format!("{layer:?}"), [WRITTEN, ""]),
        ("a procedure", format!("{:?}", procedure(&layer, WRITTEN)), [WRITTEN, "on_lease_ended"]),
    ] {
        assert_says(what, &printed, &texts);
    }
}

#[test]
fn refuses_bytes_that_are_not_descriptors() {
    let error = IdempotencyLayer::builder(b"nonsense").build().expect_err("not descriptors");
    assert!(matches!(error, BuildError::Descriptors(_)), "{error}");
}
