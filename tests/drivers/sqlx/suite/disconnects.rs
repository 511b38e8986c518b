//! Calls whose clients hang up.

use driver_suite::{
    assert_clean,
    disconnects::{counting, hang_up, hanging, opened},
    patient, rows,
};

use crate::stack::SqlxStack;

/// Whatever the timeout of the store is.
#[tokio::test]
async fn cancel_the_statement_that_runs_and_keep_the_connection() {
    const SLEEP: &str = "SELECT pg_sleep(3600)";
    let (database, owner, pool) = counting::<SqlxStack>().await;
    let service = hanging::<SqlxStack>(&database, patient::<SqlxStack>(pool.clone()), SLEEP).await;
    for key in [service.key, None] {
        hang_up(&service.with_key(key), &owner, SLEEP).await;
        assert_clean::<SqlxStack>(&pool).await;
    }
    assert_eq!((opened(&owner).await, rows(&owner).await), (1, [0, 0, 0]));
}
