//! Two servers with one database.

use tonic_idempotency::store::PostgresStore;

use crate::prelude::*;

/// Starts both servers, for one user.
async fn both(database: &Database) -> [Server; 2] {
    let user = database.user().await.id;
    let [mut tonic, mut native] = [served(database, Kind::Tonic).await, served(database, Kind::Native).await];
    (tonic.user, native.user) = (user, user);
    [tonic, native]
}

async fn served(database: &Database, kind: Kind) -> Server {
    let store = PostgresStore::new(database.pool(4), organization::resource_types());
    let layer = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(store).build().expect("a layer");
    Server::layered(kind, layer, ConnectLayer::new(FILE_DESCRIPTOR_SET)).await
}

async fn projects(database: &Database) -> i64 {
    let count = "SELECT count(*) FROM tenant.projects";
    database.owner().await.query_one(count, &[]).await.expect("the count").get(0)
}

#[tokio::test]
async fn replay_each_others_calls_over_every_protocol() {
    let database = Database::new().await;
    let servers = both(&database).await;
    for procedure in ["Create", "Book"] {
        for first in &servers {
            let (key, before) = (Uuid::new_v4(), projects(&database).await);
            let message = text(15, "shared");
            let call = first.call(Protocol::Connect, procedure, Some(key), &message);
            let outcome = first.send(Protocol::Connect, call).await;
            assert!(!outcome.is_replay());
            for server in &servers {
                for protocol in server.kind.protocols().iter().copied() {
                    let message =
                        if protocol.is_json() { br#"{"string": "shared"}"#.to_vec() } else { message.clone() };
                    let replay = server.send(protocol, server.call(protocol, procedure, Some(key), &message)).await;
                    let told = format!("{procedure} {:?} {:?} {protocol:?}", first.kind, server.kind);
                    assert!(replay.is_replay(), "{told} {replay:?}");
                    assert_eq!(replay.created().id, outcome.created().id, "{told}");
                }
            }
            let written = if procedure == "Book" { 1 } else { 0 };
            assert_eq!(projects(&database).await - before, written, "{procedure} {:?}", first.kind);
        }
    }
}

#[tokio::test]
async fn give_transactional_handlers_their_transactions_with_a_key_and_without() {
    let database = Database::new().await;
    for server in both(&database).await {
        for protocol in server.kind.protocols().iter().copied() {
            for key in [None, Some(Uuid::new_v4())] {
                let (told, before) = (format!("{:?} {protocol:?} {key:?}", server.kind), projects(&database).await);
                server.send(protocol, server.call(protocol, "Book", key, protocol.empty())).await.message();
                assert_eq!(projects(&database).await, before + 1, "{told}");

                // A failed call is rolled back.
                let fail = protocol.script("fail with 9");
                let key = key.map(|_| Uuid::new_v4());
                let failed = server.send(protocol, server.call(protocol, "Book", key, &fail)).await;
                assert_eq!(failed.error().code(), Code::FailedPrecondition, "{told}");
                assert_eq!(projects(&database).await, before + 1, "{told}");
            }
        }
    }
}

#[tokio::test]
async fn refuse_each_others_keys_for_other_requests() {
    let database = Database::new().await;
    let [tonic, native] = both(&database).await;
    let key = Uuid::new_v4();
    native.create(Protocol::ConnectJson, key, br#"{"int64": 1}"#).await.message();
    let refused = tonic.create(Protocol::ConnectJson, key, br#"{"int64": 2}"#).await;
    assert_eq!(Reason::of(refused.error()), Some(Reason::KeyReused));
    assert_eq!(refused.answer.status, 400);
}
