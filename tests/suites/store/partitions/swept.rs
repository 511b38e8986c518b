//! The sweep of partitions.

use tonic_idempotency::maintenance::Sweeper;

use super::{claims, count, expire, partitioned};
use crate::prelude::*;

#[tokio::test]
async fn leaves_what_has_not_expired() {
    let database = partitioned().await;
    let owner = database.owner().await;
    let store = patient(database.pool(2));
    let (gone, stays) = (claims(40), claims(40));
    for claim in gone.iter().chain(&stays) {
        acquire(&store, claim).await;
    }
    for claim in &gone {
        expire(&owner, claim, -1.0).await;
    }
    assert_eq!(store.sweep(25).await.expect("the store answers"), 25, "a batch is of all partitions together");
    assert_eq!(Sweeper::new(store).batch(7).rest(0.0).sweep().await.expect("the sweep"), 15);
    assert_eq!(count(&owner, "SELECT count(*) FROM tenant.idempotency_keys").await, 40);
    assert_eq!(count(&owner, "SELECT count(*) FROM tenant.idempotency_keys WHERE expires < now()").await, 0);
}

/// As docs/database.md has them.
#[tokio::test]
async fn are_vacuumed_with_settings_of_their_own() {
    let database = partitioned().await;
    let owner = database.owner().await;
    let settings =
        "SELECT DISTINCT array_to_string(c.reloptions, ' ') FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
                    WHERE i.inhparent = 'tenant.idempotency_keys'::regclass";
    let settings: String = value(&owner, settings).await;
    assert_eq!(
        settings,
        "autovacuum_vacuum_scale_factor=0.02 autovacuum_vacuum_threshold=1000 autovacuum_vacuum_insert_scale_factor=0.05 \
         autovacuum_analyze_scale_factor=0.05 autovacuum_vacuum_cost_limit=2000 vacuum_truncate=false"
    );
}

/// Each record is deleted by one of them, and none waits for another.
#[tokio::test]
async fn is_shared_by_several_processes() {
    const ROWS: i64 = 4_000;
    let database = partitioned().await;
    let owner = database.owner().await;
    let insert = format!(
        "INSERT INTO tenant.idempotency_keys (idempotency_key, user_id, procedure, request_hash, response_bytes, expires)
         SELECT gen_random_uuid(), gen_random_uuid(), '/', '', '', now() - interval '1 minute'
         FROM generate_series(1, {ROWS})"
    );
    owner.batch_execute(&insert).await.expect("expired records");
    let mut sweepers = JoinSet::new();
    for _ in 0..4 {
        let sweeper = Sweeper::new(patient(database.pool(1))).batch(50).rest(0.0);
        sweepers.spawn(async move { sweeper.sweep().await.expect("the sweep") });
    }
    let deleted: u64 = sweepers.join_all().await.into_iter().sum();
    // A sweeper that finds the last rows locked by another leaves them to it.
    assert_eq!(i64::try_from(deleted).expect("a number"), ROWS);
    assert_eq!(count(&owner, "SELECT count(*) FROM tenant.idempotency_keys").await, 0);
}

/// Another process is in the middle of a batch: its rows are passed over.
#[tokio::test]
async fn does_not_wait_for_another() {
    let database = partitioned().await;
    let mut owner = database.owner().await;
    let store = patient(database.pool(1));
    let gone = claims(20);
    for claim in &gone {
        acquire(&store, claim).await;
        expire(&owner, claim, -1.0).await;
    }
    let other = owner.transaction().await.expect("a transaction");
    let locked = "SELECT count(*) FROM (SELECT FROM tenant.idempotency_keys ORDER BY id LIMIT 5 FOR UPDATE) l";
    let locked: i64 = value(other.client(), locked).await;
    assert_eq!(locked, 5);
    assert_eq!(store.sweep(100).await.expect("the store answers"), 15);
    other.rollback().await.expect("the end");
    assert_eq!(store.sweep(100).await.expect("the store answers"), 5);
}
