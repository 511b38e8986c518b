//! Limits of one user's records, which are counted on the user's node.

use super::{call::of, distributed::Distributed};
use crate::prelude::*;

const MOST: u64 = 10;

/// The index that the records of a user are counted by.
const INDEX: &str = "CREATE INDEX IF NOT EXISTS my_index ON tenant.idempotency_keys (user_id, expires)";

#[tokio::test]
async fn a_user_who_is_full_is_refused_and_no_other() {
    let Some(distributed) = Distributed::take().await else { return };
    distributed.superuser().await.batch_execute(INDEX).await.expect("the index");
    let store = limited(distributed.store(), MOST);
    store.verify().await.expect("the records of a user can be counted");
    let (user, other) = (Uuid::new_v4(), Uuid::new_v4());
    let first = of(user);
    acquire(&store, &first).await;
    for _ in 1..MOST {
        acquire(&store, &of(user)).await;
    }
    let refused = store.claim(&of(user)).await.expect_err("the user is full");
    assert_eq!(refused.kind(), StoreErrorKind::UserFull, "{refused:?}");
    assert_in_flight(&store, &first).await;
    // Another server counts the same records on the node.
    let refused = limited(distributed.store(), MOST).claim(&of(user)).await.expect_err("the user is full");
    assert_eq!(refused.kind(), StoreErrorKind::UserFull, "{refused:?}");
    acquire(&store, &of(other)).await;
}
