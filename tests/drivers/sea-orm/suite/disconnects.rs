//! Calls whose clients hang up.

use driver_suite::{
    assert_clean,
    disconnects::{counting, hang_up, hanging, opened},
    patient, rows,
};

use crate::stack::SeaOrmStack;

/// Whatever the timeout of the store is.
#[tokio::test]
async fn cancel_the_statement_that_runs_and_keep_the_connection() {
    const SLEEP: &str = "SELECT pg_sleep(3600)";
    let (database, owner, pool) = counting::<SeaOrmStack>().await;
    let service = hanging::<SeaOrmStack>(&database, patient::<SeaOrmStack>(pool.clone()), SLEEP).await;
    for key in [service.key, None] {
        hang_up(&service.with_key(key), &owner, SLEEP).await;
        assert_clean::<SeaOrmStack>(&pool).await;
    }
    assert_eq!((opened(&owner).await, rows(&owner).await), (1, [0, 0, 0]));
}
