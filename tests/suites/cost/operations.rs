//! Round trips of operations that are no gRPC calls: as many as a call's, and few for many at once.

use std::{convert::Infallible, time::Duration};

use futures_util::future::join_all;
use tonic_idempotency::{
    Caller, Transaction,
    policy::{Mode, Procedure},
    run::{Bytes, Call, Operation},
    store::{PostgresStore, TransactionError},
};
use tonic_idempotency_tests::{Database, Proxy};

use crate::prelude::*;

const IMPORT: &str = "shop.v1/ImportProject";

/// A page of messages.
const PAGE: usize = 100;

/// The round trips of the page: a claim and an outcome alone, then in statements of 64. A statement that is large may count twice.
const MOST: usize = 2 * 2 * (1 + PAGE.div_ceil(64));

/// An operation of the sample's database in this mode, behind a proxy.
async fn operation(database: &Database, mode: Mode) -> (Proxy, Operation<Bytes>, Caller) {
    // One connection: each would prepare each statement.
    let (proxy, pool) = database.pool_through_proxy(1).await;
    let store = PostgresStore::new(pool, organization::resource_types()).timeout(Duration::from_secs(60));
    let layer = IdempotencyLayer::builder([]).store(store).procedure(Procedure::operation(IMPORT).mode(mode));
    let operation = layer.build().expect("an operation").operation(IMPORT).expect("it is declared");
    (proxy, operation, Caller::new(UserId::new(database.user().await.id)))
}

async fn nothing(_call: Call) -> Result<Vec<u8>, Infallible> {
    Ok(Vec::new())
}

#[tokio::test]
async fn in_a_transaction_takes_as_many_round_trips_as_a_call() {
    let database = Database::new().await;
    let (proxy, operation, caller) = operation(&database, Mode::Transactional).await;
    let insert = |call: Call| async move {
        let transaction = Transaction::from_extensions(call.extensions())?;
        transaction
            .batch_execute("INSERT INTO tenant.projects (cluster_id, name) SELECT id, 'a' FROM tenant.clusters")
            .await?;
        Ok::<_, TransactionError>(Vec::new())
    };
    let mut taken = Vec::new();
    // The first one prepares the statements.
    for _ in 0..3 {
        let before = proxy.round_trips();
        operation.run(&caller, &Uuid::new_v4().to_string(), b"", insert).await.expect("it runs");
        taken.push(proxy.round_trips() - before);
    }
    assert_eq!(taken[1..], [3, 3], "BEGIN and claim, the handler's statement, record and COMMIT");
}

/// Futures that are joined share their statements: no function for many is needed.
#[tokio::test]
async fn of_a_page_of_messages_take_few_round_trips() {
    let database = Database::new().await;
    let (proxy, operation, caller) = operation(&database, Mode::Reserved).await;
    operation.run(&caller, &Uuid::new_v4().to_string(), b"", nothing).await.expect("it prepares the statements");
    let keys: Vec<_> = (0..PAGE).map(|_| Uuid::new_v4().to_string()).collect();
    for (attempt, is_replay) in [("the first", false), ("again", true)] {
        let before = proxy.round_trips();
        let ended = join_all(keys.iter().map(|key| operation.run(&caller, key, b"", nothing))).await;
        let taken = proxy.round_trips() - before;
        assert!(ended.into_iter().all(|ended| ended.expect("it runs").is_replay() == is_replay), "{attempt}");
        assert!(taken <= MOST, "{attempt}: {taken} round trips");
    }
}
