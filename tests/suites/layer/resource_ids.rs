//! Ids of created resources that are UUIDs, integers or texts.

use prost_reflect::{DynamicMessage, Value};
use tonic_idempotency::{
    policy::ResponseError,
    status::{IdKind, ResourceId},
    store::ResourceType,
};

use crate::build::unconnected;
use crate::prelude::*;
use crate::replay_hooks::Membership;

/// The procedure of a layer whose ids are in this field, and are of this kind in the store; `None` for a store that takes any.
fn procedure(field: &str, kind: Option<IdKind>) -> Result<Procedure, String> {
    let builder = IdempotencyLayer::builder(compile(&format!(
        "rpc Create(Request) returns (Ids) {{
           option (idempotency.v1.procedure) = {{ creates: {{ resource_type: 'a', id_field: '{field}', untracked: true }} }}; }}",
    )));
    let builder = match kind {
        Some(kind) => {
            let a = ResourceType::new("a", "a_id", "written.a").ids(kind);
            builder.store(unconnected(ResourceTypes::new([a])))
        }
        None => builder.store(MemoryStore::new()),
    };
    match builder.build() {
        Ok(layer) => Ok(layer.procedures().next().expect("a procedure").clone()),
        Err(error) => Err(error.to_string()),
    }
}

/// The id in a response with this value.
fn id(procedure: &Procedure, field: &str, value: Value) -> Option<String> {
    let mut response = DynamicMessage::new(procedure.method().expect("it is one of a service").output());
    response.set_field_by_name(field, value);
    match procedure.resource_id(&response.encode_to_vec()) {
        Ok(id) => Some(id.expect("a resource").to_string()),
        Err(error) => {
            assert_eq!(error, ResponseError::NotAnId);
            None
        }
    }
}

#[test]
fn are_read_by_the_kind_of_their_type() {
    let (integer, text, uuid) = (Some(IdKind::Integer), Some(IdKind::Text), Some(IdKind::Uuid));
    let string = |text: &str| Value::String(text.to_owned());
    let usual = "0198c0de-0000-7000-8000-00000000000a";
    let other = "0198C0DE00007000800000000000000A";
    let bytes: Vec<u8> = usual.parse::<uuid::Uuid>().expect("a UUID").as_bytes().to_vec();
    let long = "x".repeat(256);
    let rows = [
        ("id", uuid, string(usual), Some(usual)),
        ("id", uuid, string(other), Some(usual)),
        ("id", uuid, string("17"), None),
        ("id", uuid, string(""), None),
        ("id", integer, string("17"), Some("17")),
        ("id", integer, string("017"), Some("17")),
        ("id", integer, string("9223372036854775808"), None),
        ("id", integer, string("ord_17"), None),
        ("id", text, string("ord_17"), Some("ord_17")),
        ("id", text, string(usual), Some(usual)),
        ("id", text, string(other), Some(other)),
        ("id", text, string("017"), Some("017")),
        ("id", text, string(&long), None),
        ("id", text, string("a\0"), None),
        ("id", text, string(""), None),
        ("id", None, string("ord_17"), Some("ord_17")),
        ("id", None, string(usual), Some(usual)),
        ("id", None, string(""), None),
        ("raw", uuid, Value::Bytes(bytes.clone().into()), Some(usual)),
        ("raw", uuid, Value::Bytes(bytes[1..].to_vec().into()), None),
        ("raw", None, Value::Bytes(bytes.clone().into()), Some(usual)),
        ("int32", integer, Value::I32(-17), Some("-17")),
        ("sint64", integer, Value::I64(i64::MIN), Some("-9223372036854775808")),
        ("fixed32", integer, Value::U32(u32::MAX), Some("4294967295")),
        ("uint64", integer, Value::U64(17), Some("17")),
        ("uint64", integer, Value::U64(u64::MAX), None),
        ("uint64", text, Value::U64(u64::MAX), Some("18446744073709551615")),
        ("uint64", None, Value::U64(17), Some("17")),
        ("uint64", text, Value::U64(0), None),
        // An integer that is not set.
        ("int32", integer, Value::I32(0), None),
    ];
    for (field, kind, value, expected) in rows {
        let told = format!("{field} {kind:?} {value:?}");
        assert_eq!(id(&procedure(field, kind).expect(&told), field, value).as_deref(), expected, "{told}");
    }
}

#[test]
fn cannot_be_in_a_field_that_does_not_hold_their_kind() {
    for (field, kind, names) in [
        ("int32", IdKind::Uuid, "a UUID"),
        ("uint64", IdKind::Uuid, "a UUID"),
        ("raw", IdKind::Integer, "an integer"),
        ("raw", IdKind::Text, "a text"),
    ] {
        let message = procedure(field, Some(kind)).expect_err(field);
        assert!(message.contains("/written.v1.Service/Create") && message.contains(names), "{message}");
        assert!(message.contains("ResourceType::ids"), "it says what to do: {message}");
    }
    for field in ["flag", "ratio", "list", "kind", "ids"] {
        let message = error(IdempotencyLayer::builder(compile(&format!(
            "rpc Create(Request) returns (Ids) {{
               option (idempotency.v1.procedure) = {{ creates: {{ resource_type: 'a', id_field: '{field}' }} }}; }}",
        ))));
        assert!(message.contains(field) && message.contains("cannot hold an id"), "{message}");
    }
}

fn order(id: &str) -> Resource {
    Resource { resource_type: "order".to_owned(), id: ResourceId::from_text(id).expect("an id") }
}

/// A shop whose orders have their names as ids, and who is asked for its replays.
async fn named(store: &MemoryStore) -> (Shop, Membership) {
    let (members, by_name) = (Membership::default(), Procedure::builder(CREATE).creates("order", "order.name"));
    let authorized = members.clone();
    (Shop::with(|builder| authorized.authorizes(builder.store(store.clone()).procedure(by_name))).await, members)
}

#[tokio::test]
async fn are_known_to_every_replay() {
    let store = MemoryStore::new();
    let (shop, members) = named(&store).await;
    shop.create("ord_17").await.expect("the first call").assert("processing", false);
    shop.create("ord_17").await.expect("a replay").assert("processing", true);
    store.set_status(order("ord_17").id, OutboxStatus::Failed);
    // From the store, and then from memory.
    for _ in 0..2 {
        shop.create("ord_17").await.expect("a replay").assert("failed", true);
    }
    assert_eq!(members.resources(), vec![Some(order("ord_17")); 3]);
}

#[tokio::test]
async fn are_told_if_the_response_was_not_stored() {
    let store = MemoryStore::new();
    let procedure = Procedure::builder(CREATE).creates("order", "order.name");
    let shop = Shop::with(|builder| builder.store(store).procedure(procedure).max_response_bytes(0)).await;
    shop.create("ord_17").await.expect("the first call");
    let status = assert_refused(shop.create("ord_17").await, Code::FailedPrecondition, Reason::NotStored);
    assert_eq!(status.get_details_error_info().expect("an ErrorInfo").metadata["resource_id"], "ord_17");
}

/// The first response is stored nevertheless.
#[tokio::test]
async fn are_left_out_of_the_record_if_they_are_too_long() {
    let (shop, members) = named(&MemoryStore::new()).await;
    let long = "x".repeat(256);
    let first = shop.create(&long).await.expect("the first call");
    shop.create(&long).await.expect("a replay").assert_replays("processing", &first);
    assert_eq!(members.resources(), [None]);
}
