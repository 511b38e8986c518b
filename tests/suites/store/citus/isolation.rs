//! Row-level security on the nodes.

use tonic_idempotency_tests::KNOWN_TO_PLANNER;

use super::{
    call::{insert, of, open, order},
    cluster::SUPERUSER,
    distributed::{API, Distributed, OWNER},
};
use crate::prelude::*;

/// The number of rows of a table that the API's role sees in a transaction with these settings, which are sent to the nodes.
async fn seen(distributed: &Distributed, table: &str, settings: &[(&str, Uuid)]) -> i64 {
    let api = distributed.connect(&distributed.coordinator, API).await;
    execute(&api, "BEGIN; SET LOCAL citus.propagate_set_commands = 'local'").await;
    for (name, value) in settings {
        api.batch_execute(&format!("SET LOCAL {name} = '{value}'")).await.expect("a setting");
    }
    let count = format!("SELECT count(*) FROM {table}");
    value(&api, &count).await
}

#[tokio::test]
async fn a_user_sees_rows_of_its_own_alone() {
    let Some(distributed) = Distributed::take().await else { return };
    let store = distributed.store();
    let users = [Uuid::new_v4(), Uuid::new_v4(), Uuid::new_v4(), Uuid::new_v4()];
    for user in users {
        complete(&store, &of(user), &completion("done")).await;
        order(&store, &of(user)).await.expect("the store answers");
    }
    assert_eq!(distributed.orders_and_records().await, (4, 8));
    for user in users {
        assert_eq!(seen(&distributed, "tenant.idempotency_keys", &[("idempotency.owner", user)]).await, 2);
        assert_eq!(seen(&distributed, "app.orders", &[("app.current_user_id", user)]).await, 1);
    }
    for table in ["tenant.idempotency_keys", "app.orders"] {
        assert_eq!(seen(&distributed, table, &[]).await, 0, "nobody sees rows of {table}");
        let other = [("idempotency.owner", Uuid::new_v4()), ("app.current_user_id", Uuid::new_v4())];
        assert_eq!(seen(&distributed, table, &other).await, 0, "a stranger sees rows of {table}");
    }
}

/// Connections between the nodes are used again: nothing of a call is left on them.
#[tokio::test]
async fn a_call_leaves_no_user_on_the_nodes() {
    let Some(distributed) = Distributed::take().await else { return };
    let store = distributed.store_on(distributed.pool(1));
    for _ in 0..8 {
        let call = of(Uuid::new_v4());
        complete(&store, &call, &completion("done")).await;
        order(&store, &of(Uuid::new_v4())).await.expect("the store answers");
        let client = distributed.connect(&distributed.coordinator, API).await;
        assert_eq!(value::<i64>(&client, "SELECT count(*) FROM tenant.idempotency_keys").await, 0);
    }
}

#[tokio::test]
async fn a_handler_sees_and_writes_rows_of_its_own_user_alone() {
    let Some(distributed) = Distributed::take().await else { return };
    let store = distributed.store();
    let (user, other) = (Uuid::new_v4(), Uuid::new_v4());
    order(&store, &of(other)).await.expect("the store answers");
    let (transaction, handle) = open(&store, &of(user)).await.expect("the key is free");
    insert(&handle, user, Uuid::new_v4()).await.expect("an order");
    let orders =
        handle.query_one("SELECT count(*), min(user_id::text) FROM app.orders", &[]).await.expect("the orders");
    assert_eq!((orders.get(0), orders.get(1)), (1_i64, user.to_string()));
    let refused = insert(&handle, other, Uuid::new_v4()).await.expect_err("an order of somebody else");
    assert!(format!("{refused:?}").contains("row-level security"), "{refused:?}");
    drop(handle);
    transaction.roll_back().await;
}

/// The API's role on a worker, without the coordinator: the shards have the policies, too.
#[tokio::test]
async fn the_shards_are_confined_like_the_table() {
    let Some(distributed) = Distributed::take().await else { return };
    let store = distributed.store();
    for _ in 0..12 {
        acquire(&store, &of(Uuid::new_v4())).await;
    }
    assert_eq!(distributed.nodes_with_records().await, 2);
    for worker in &distributed.workers {
        let api = distributed.connect(worker, API).await;
        let shards = "SELECT format('tenant.%I', 'idempotency_keys_' || shardid)
                      FROM pg_dist_placement JOIN pg_dist_shard USING (shardid)
                      WHERE logicalrelid = 'tenant.idempotency_keys'::regclass
                        AND groupid = (SELECT groupid FROM pg_dist_local_group)";
        let shards = api.query(shards, &[]).await.expect("the shards");
        assert_eq!(shards.len(), 4);
        for shard in shards {
            let count = format!("SELECT count(*) FROM {}", shard.get::<_, String>(0));
            assert_eq!(value::<i64>(&api, &count).await, 0);
        }
    }
}

/// On no node, also of the resource types, which were registered after the distribution. Otherwise EXPLAIN tells them.
#[tokio::test]
async fn the_planner_has_no_values_that_belong_to_users() {
    let Some(distributed) = Distributed::take().await else { return };
    let store = distributed.store();
    for _ in 0..12 {
        complete(&store, &of(Uuid::new_v4()), &completion("done")).await;
    }
    assert_eq!(distributed.nodes_with_records().await, 2);
    let owner = distributed.connect(&distributed.coordinator, OWNER).await;
    owner.batch_execute("ANALYZE tenant.idempotency_keys").await.expect("statistics");
    for worker in &distributed.workers {
        let known = "SELECT DISTINCT attname::text FROM pg_stats WHERE tablename LIKE 'idempotency_keys%' ORDER BY 1";
        let superuser = distributed.connect(worker, SUPERUSER).await;
        superuser.batch_execute("SET citus.override_table_visibility = off").await.expect("the shards are visible");
        let known: Vec<String> = values(&superuser, known).await;
        assert_eq!(known, KNOWN_TO_PLANNER);
    }
}

/// Only the sweep and the recovery see rows of all users, and the API's role cannot take their sight.
#[tokio::test]
async fn the_sight_of_the_sweep_is_not_for_the_api_role() {
    let Some(distributed) = Distributed::take().await else { return };
    let store = distributed.store();
    let expired = Claim { lease: Duration::ZERO, retention: Duration::ZERO, ..of(Uuid::new_v4()) };
    acquire(&store, &expired).await;
    let mut api = distributed.connect(&distributed.coordinator, API).await;
    let transaction = api.transaction().await.expect("a transaction");
    for setting in ["citus.propagate_set_commands = 'local'", "app.idempotency_sight = 'sweep'"] {
        transaction.batch_execute(&format!("SET LOCAL {setting}")).await.expect("a setting");
    }
    let count = "SELECT count(*) FROM tenant.idempotency_keys";
    assert_eq!(transaction.query_one(count, &[]).await.expect("a count").get::<_, i64>(0), 0);
    drop(transaction);
    assert_eq!(store.sweep(10).await.expect("the store answers"), 1);
    acquire(&store, &again(&expired)).await;
}
