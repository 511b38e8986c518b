//! Tables after their move.

use super::{PARTITIONS, count, expire, partitions, plain};
use crate::migrations::{schema, with_tables, works};
use crate::prelude::*;

/// The same columns, policies, grants and functions, but for what partitions need.
#[tokio::test]
async fn are_like_new_ones() {
    let (moved, types) = with_tables().await;
    let (made, _) = with_tables().await;
    let mut lines = Vec::new();
    for (database, is_new) in [(&moved, false), (&made, true)] {
        let mut owner = database.owner().await;
        migrations::run(&mut owner, &Schema::default()).await.expect("the migrations run");
        migrations::register(&mut owner, &Schema::default(), &types).await.expect("the registration");
        migrations::grant(&owner, &Schema::default(), API_ROLE).await.expect("the grant");
        if is_new {
            migrations::partition(&owner, &Schema::default(), PARTITIONS).await.expect("the partitions");
        } else {
            migrations::move_to_partitions(&owner, &Schema::default(), PARTITIONS).await.expect("the way over");
        }
        lines.push(schema(&owner).await);
    }
    assert_eq!(lines[0], lines[1]);
}

/// Recovery, operators, look-ups and the sweep. An expired record has stayed behind.
#[tokio::test]
async fn serve_every_operation() {
    let database = plain().await;
    let owner = database.owner().await;
    let store = patient(database.pool(2));
    let (stuck, gone) = (Claim { lease: Duration::ZERO, ..any() }, any());
    acquire(&store, &stuck).await;
    complete(&store, &gone, &completion("gone")).await;
    expire(&owner, &gone, -1.0).await;
    migrations::move_to_partitions(&owner, &Schema::default(), PARTITIONS).await.expect("the way over");
    assert_eq!(partitions(&owner).await, i64::from(PARTITIONS));
    assert_eq!(count(&owner, "SELECT count(*) FROM tenant.idempotency_keys").await, 1);
    acquire(&store, &again(&gone)).await;
    assert_eq!(count(&owner, "SELECT count(*) FROM tenant.idempotency_list() WHERE state = 'abandoned'").await, 1);
    let (user, key) = (stuck.reservation.owner.as_uuid(), stuck.reservation.key.as_uuid());
    let state: String =
        value(&owner, &format!("SELECT state FROM tenant.idempotency_inspect('{key}', '{user}')")).await;
    assert_eq!(state, "abandoned");
    assert_eq!(look_up(&store, &stuck).await.state, KeyState::Unknown);
    take_over(&store, &again(&stuck)).await;
    expire(&owner, &stuck, -1.0).await;
    assert_eq!(store.sweep(10).await.expect("the store answers"), 1);
    works(&database).await;
}
