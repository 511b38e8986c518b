//! Limits of one user's records, which are counted on the user's node.

use tonic_idempotency::store::{ClaimOutcome, Store, StoreErrorKind};
use uuid::Uuid;

use super::{call::of, distributed::Distributed};
use crate::record::{acquire, again, complete, completion};

const MOST: u64 = 10;

/// The index that the records of a user are counted by.
const INDEX: &str = "CREATE INDEX IF NOT EXISTS my_index ON tenant.idempotency_keys (user_id, expires)";

#[tokio::test]
async fn a_user_who_is_full_is_refused_and_no_other() {
    let Some(distributed) = Distributed::take().await else { return };
    distributed.superuser().await.batch_execute(INDEX).await.expect("the index");
    let store = distributed.store().max_records_per_user(MOST);
    store.verify().await.expect("the records of a user can be counted");
    let (user, other) = (Uuid::new_v4(), Uuid::new_v4());
    let first = of(user);
    acquire(&store, &first).await;
    for _ in 1..MOST {
        acquire(&store, &of(user)).await;
    }
    let refused = store.claim(&of(user)).await.expect_err("the user is full");
    assert_eq!(refused.kind(), StoreErrorKind::UserFull, "{refused:?}");
    let retried = store.claim(&again(&first)).await.expect("a retry is answered");
    assert!(matches!(retried, ClaimOutcome::InFlight { .. }), "{retried:?}");
    // Another server counts what is on the node, too.
    let refused = distributed.store().max_records_per_user(MOST).claim(&of(user)).await.expect_err("the user is full");
    assert_eq!(refused.kind(), StoreErrorKind::UserFull, "{refused:?}");
    acquire(&store, &of(other)).await;
}

#[tokio::test]
async fn a_user_with_as_many_bytes_as_one_may_have_is_refused() {
    let Some(distributed) = Distributed::take().await else { return };
    distributed.superuser().await.batch_execute(INDEX).await.expect("the index");
    let user = Uuid::new_v4();
    for _ in 0..4 {
        complete(&distributed.store(), &of(user), &completion("sixteen or more.")).await;
    }
    let full = distributed.store().max_bytes_per_user(64);
    let refused = full.claim(&of(user)).await.expect_err("the user is full");
    assert_eq!(refused.kind(), StoreErrorKind::UserFull, "{refused:?}");
    acquire(&distributed.store().max_bytes_per_user(1000), &of(user)).await;
}
