//! Tables after their move.

use super::{PARTITIONS, claims, count, expire, partitions, plain};
use crate::migrations::{schema, with_tables, works};
use crate::prelude::*;

async fn state(store: &PostgresStore, claim: &Claim) -> String {
    let outcome = store.claim(&again(claim)).await.expect("the store answers");
    format!("{outcome:?}").split(['(', ' ']).next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn have_every_record_in_its_state() {
    let database = plain().await;
    let owner = database.owner().await;
    let store = PostgresStore::new(database.pool(2), ResourceTypes::none());
    let (done, held, released, gone) = (claims(50), claims(50), claims(10), claims(10));
    for claim in done.iter().chain(&gone) {
        complete(&store, claim, &completion("done")).await;
    }
    for claim in held.iter().chain(&released) {
        acquire(&store, claim).await;
    }
    for claim in &gone {
        expire(&owner, claim, -1.0).await;
    }
    for claim in &released {
        release(&store, &claim).await;
    }

    migrations::move_to_partitions(&owner, &Schema::default(), PARTITIONS).await.expect("the way over");

    assert_eq!(partitions(&owner).await, i64::from(PARTITIONS));
    assert_eq!(
        count(&owner, "SELECT count(*) FROM tenant.idempotency_keys").await,
        100,
        "the expired ones stay behind"
    );
    assert_eq!(
        count(&owner, "SELECT count(*) FROM pg_class WHERE relname ~ '^idempotency_keys_(before|next)'").await,
        0
    );
    for claim in &done {
        assert_eq!(state(&store, claim).await, "Replay");
    }
    for claim in &held {
        assert_eq!(state(&store, claim).await, "InFlight");
        store.complete(&claim.reservation, &completion("later")).await.expect("the token still holds the key");
        assert_eq!(state(&store, claim).await, "Replay");
    }
    for claim in released.iter().chain(&gone) {
        assert_eq!(state(&store, claim).await, "Acquired");
    }
    works(&database).await;
}

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

/// Recovery, operators, look-ups and the sweep.
#[tokio::test]
async fn serve_every_operation() {
    let database = plain().await;
    let owner = database.owner().await;
    let store = patient(database.pool(2));
    let stuck = Claim { lease: Duration::ZERO, ..any() };
    acquire(&store, &stuck).await;
    migrations::move_to_partitions(&owner, &Schema::default(), PARTITIONS).await.expect("the way over");
    assert_eq!(count(&owner, "SELECT count(*) FROM tenant.idempotency_stuck()").await, 1);
    let inspect = format!(
        "SELECT count(*) FROM tenant.idempotency_inspect('{}', '{}') i WHERE i.state = 'abandoned'",
        stuck.reservation.key.as_uuid(),
        stuck.reservation.owner.as_uuid()
    );
    assert_eq!(count(&owner, &inspect).await, 1);
    look_up(&store, &stuck).await;
    take_over(&store, &again(&stuck)).await;
    expire(&owner, &stuck, -1.0).await;
    assert_eq!(store.sweep(10).await.expect("the store answers"), 1);
}
