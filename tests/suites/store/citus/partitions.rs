//! A table is distributed or partitioned, and not both.

use super::distributed::{Distributed, OWNER};
use crate::prelude::*;

#[track_caller]
fn assert_refused<T: std::fmt::Debug>(outcome: Result<T, Error>, why: &str) {
    let error = outcome.expect_err("it is refused");
    let error = error.as_db_error().expect("an answer");
    let message = error.message().replace('"', "");
    assert_eq!((error.code(), &*message), (&SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, why), "{error:?}");
    assert!(error.hint().is_some(), "{error:?}");
}

#[tokio::test]
async fn a_distributed_table_is_not_partitioned() {
    let Some(distributed) = Distributed::take().await else { return };
    let owner = distributed.connect(&distributed.coordinator, OWNER).await;
    migrations::partitions(&owner, &Schema::default()).await.expect("what partitions need");
    let why = "tenant.idempotency_keys is distributed over several nodes, and cannot be partitioned";
    assert_refused(owner.simple_query("SELECT tenant.idempotency_partition(4)").await, why);
    assert_refused(owner.simple_query("CALL tenant.idempotency_move_to_partitions(4)").await, why);
    distributed.store().verify().await.expect("nothing has changed");
}

/// A table of only the coordinator.
async fn local(distributed: &Distributed) -> (Client, Schema) {
    let schema = Schema::new(format!("local_{}", Uuid::new_v4().simple())).expect("a name");
    let mut owner = distributed.connect(&distributed.coordinator, OWNER).await;
    migrations::run(&mut owner, &schema).await.expect("the migrations run");
    (owner, schema)
}

#[tokio::test]
async fn a_partitioned_table_is_not_distributed() {
    let Some(distributed) = Distributed::take().await else { return };
    let (owner, schema) = local(&distributed).await;
    migrations::partition(&owner, &schema, 4).await.expect("the partitions");
    let why = format!("{}.idempotency_keys has 4 partitions, and is not distributed", schema.name());
    assert_refused(owner.batch_execute(&migrations::distribution_sql(&schema)).await, &why);
}

#[tokio::test]
async fn a_table_that_is_being_moved_to_partitions_is_not_distributed() {
    let Some(distributed) = Distributed::take().await else { return };
    let (owner, schema) = local(&distributed).await;
    migrations::partitions(&owner, &schema).await.expect("what partitions need");
    let begin = format!("SELECT {}.idempotency_move_step(4, 500, NULL)", schema.name());
    owner.batch_execute(&begin).await.expect("the first step");
    let why = format!("{}.idempotency_keys is being moved to partitions, and is not distributed", schema.name());
    assert_refused(owner.batch_execute(&migrations::distribution_sql(&schema)).await, &why);

    let stop = format!("SELECT {}.idempotency_stop_moving()", schema.name());
    owner.batch_execute(&stop).await.expect("everything is taken back");
    owner.batch_execute(&migrations::distribution_sql(&schema)).await.expect("the table is distributed");
}
