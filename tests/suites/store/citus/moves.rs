//! A table that has records already, under names of its own.

use super::{
    call::of,
    distributed::{API, Distributed, OWNER},
};
use crate::prelude::*;

#[tokio::test]
async fn records_that_exist_are_moved_to_the_nodes() {
    let Some(distributed) = Distributed::take().await else { return };
    let schema = Schema::new("billing").and_then(|schema| schema.table("operations")).expect("names");
    let mut owner = distributed.connect(&distributed.coordinator, OWNER).await;
    migrations::run(&mut owner, &schema).await.expect("the migrations run");
    migrations::grant(&owner, &schema, API).await.expect("the rights");
    let store = PostgresStore::new(distributed.pool(1), ResourceTypes::none()).schema(schema.clone()).max_batch(1);
    let (mut held, mut done) = (Vec::new(), Vec::new());
    for _ in 0..8 {
        let (first, second) = (of(Uuid::new_v4()), of(Uuid::new_v4()));
        acquire(&store, &first).await;
        complete(&store, &second, &completion("done")).await;
        held.push(first);
        done.push(second);
    }

    owner.batch_execute(&migrations::distribution_sql(&schema)).await.expect("the table is distributed");

    store.verify().await.expect("the store is set up");
    let shards = "SELECT count(DISTINCT nodename || nodeport) FROM citus_shards WHERE table_name = 'billing.operations'::regclass";
    let nodes: i64 = distributed.superuser().await.query_one(shards, &[]).await.expect("a count").get(0);
    assert_eq!(nodes, 2);
    for call in &held {
        assert_in_flight(&store, call).await;
        record(&store, call, "late").await;
    }
    for call in &done {
        assert_eq!(replay_of(&store, call).await.response, StoredResponse::message("done"));
    }
    let count = "SELECT count(*) FROM billing.operations";
    assert_eq!(value::<i64>(&owner, count).await, 0, "the owner is confined again");
}
