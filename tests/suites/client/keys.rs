//! Keys: the caller's own, or new ones.

use tonic_idempotency_client::{BuildError, IdempotencyClientBuilder, ProcedureError};
use tonic_idempotency_tests::shop::{LOSSY_FILE_DESCRIPTOR_SET, proto::Client};

use super::foreign::{CREATE_ORDER, Foreign, GET_ORDER, order};
use super::prelude::*;

#[tokio::test(start_paused = true)]
async fn are_new_for_each_operation_and_the_same_in_all_its_attempts() {
    let server = Foreign::default();
    let mut client = server.client(|layer| layer).await;
    let mut keys = Vec::new();
    for _ in 0..3 {
        server.fails([Status::unavailable(""), Status::unavailable("")]);
        client.create_order(order("shop")).await.expect("an order");
        let seen = server.seen();
        assert_eq!(seen.len(), 3);
        assert!(seen.iter().all(|call| call.key() == seen[0].key() && call.message == seen[0].message));
        let key: Uuid = seen[0].key().expect("a key").parse().expect("a UUID");
        assert_eq!(key.get_version_num(), 7);
        keys.push(key);
    }
    keys.dedup();
    assert_eq!(keys.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn of_the_caller_win() {
    let server = Foreign::default();
    let mut client = server.client(|layer| layer.key_field(CREATE_ORDER, "request_id")).await;
    let own = Uuid::new_v4();

    let mut in_header = Request::new(order("shop"));
    in_header.metadata_mut().insert("idempotency-key", own.to_string().parse().expect("metadata"));
    let mut in_extensions = Request::new(order("shop"));
    in_extensions.extensions_mut().insert(OperationKey::from(own));
    let mut in_field = order("shop");
    in_field.request_id = own.to_string();

    for request in [in_header, in_extensions, Request::new(in_field)] {
        server.fails([Status::unavailable("")]);
        client.create_order(request).await.expect("an order");
        for call in server.seen() {
            assert_eq!(call.key(), Some(&*own.to_string()));
            assert_eq!(call.message.request_id, own.to_string(), "the field is filled in");
        }
    }
}

/// As AIP-155 has it.
#[tokio::test(start_paused = true)]
async fn fill_in_the_field_of_the_request() {
    let server = Foreign::default();
    let mut client = server.client(|layer| layer.key_field(CREATE_ORDER, "client.token")).await;
    let mut request = order("shop");
    request.client = Some(Client { id: "a".to_owned(), token: Vec::new() });
    client.create_order(request).await.expect("an order");
    let seen = server.seen();
    let client = seen[0].message.client.clone().expect("a client");
    assert_eq!(client.id, "a");
    assert_eq!(Uuid::from_slice(&client.token).expect("a UUID").to_string(), seen[0].key().expect("a key"));
}

#[tokio::test(start_paused = true)]
async fn that_are_no_uuids_are_in_the_header() {
    let server = Foreign::default();
    let mut client = server.client(|layer| layer.key_field(CREATE_ORDER, "client.token")).await;
    let mut request = Request::new(order("shop"));
    request.extensions_mut().insert(OperationKey::from_text("order-17").expect("a key"));
    client.create_order(request).await.expect("an order");
    let seen = server.seen();
    assert_eq!((seen[0].key(), &seen[0].message), (Some("order-17"), &order("shop")));
}

#[test]
fn are_for_procedures_that_are_there() {
    let refused = |builder: IdempotencyClientBuilder| match builder.build() {
        Err(BuildError::Procedure(error)) => error,
        other => panic!("{other:?}"),
    };
    let builder = || IdempotencyClientLayer::builder(FILE_DESCRIPTOR_SET);
    let (procedure, field) = (|path: &str| path.to_owned(), |path: &str| path.to_owned());
    let misspelt = refused(builder().procedure("/shop.v1.Shop/CreateOrders"));
    assert!(misspelt.to_string().contains("did you mean /shop.v1.Shop/CreateOrder"), "{misspelt}");
    let error = IdempotencyClientLayer::new(LOSSY_FILE_DESCRIPTOR_SET).expect_err("no procedure takes a key");
    assert_eq!(format!("{error:?}"), error.to_string(), "what a `main` prints that returns it");
    assert_eq!(
        refused(builder().procedure("/shop.v1.Shop/WatchOrders")),
        ProcedureError::Streaming { procedure: procedure("/shop.v1.Shop/WatchOrders") }
    );
    assert_eq!(
        refused(builder().key_field(GET_ORDER, "request_id")),
        ProcedureError::NotOptedIn { procedure: procedure(GET_ORDER) }
    );
    for path in ["id", "labels", "client", "client.name", "name.id", ""] {
        assert_eq!(
            refused(builder().key_field(CREATE_ORDER, path)),
            ProcedureError::NoKeyField { procedure: procedure(CREATE_ORDER), path: field(path) }
        );
    }
    assert!(matches!(IdempotencyClientLayer::new(LOSSY_FILE_DESCRIPTOR_SET), Err(BuildError::NoProcedures)));
    assert!(matches!(IdempotencyClientLayer::new(b"\xff"), Err(BuildError::Descriptors(_))));
}
