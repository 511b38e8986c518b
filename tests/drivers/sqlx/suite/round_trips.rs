//! Round trips to PostgreSQL of whole calls, compared with the same handler without the layer.

use driver_suite::round_trips::{self, Expected};
use sqlx::PgPool;
use tonic_idempotency_sqlx::TransactionError;
use uuid::Uuid;

use crate::stack::{SqlxStack, insert};

/// The insert takes two: it is not prepared.
const EXPECTED: Expected = Expected {
    bare: 6,           // ping, BEGIN, the user, insert, COMMIT
    user: 1,           // set_config
    keyed: 6,          // BEGIN, claim, insert, record, COMMIT
    replayed: 4,       // BEGIN, claim, the record of a key that is not free, ROLLBACK
    without_key: 6,    // BEGIN, the user, insert, a look, COMMIT
    with_savepoint: 7, // BEGIN, claim, savepoint, insert, record, COMMIT
    final_error: 8,    // BEGIN, claim, savepoint, insert, ROLLBACK TO, record, COMMIT
    returned: 1,       // ping
};

/// The handler with sqlx alone.
async fn bare(pool: &PgPool, user: Uuid) -> Result<Uuid, TransactionError> {
    let mut transaction = pool.begin().await?;
    let set = "SELECT set_config('app.current_user_id', $1, true)";
    sqlx::query(set).bind(user.to_string()).execute(&mut *transaction).await?;
    let project = insert(&mut transaction, "bare").await?;
    transaction.commit().await?;
    Ok(project)
}

#[tokio::test]
async fn are_at_most_one_more_than_those_of_the_handler_alone() {
    let bare = async |pool: &PgPool, user| {
        bare(pool, user).await.expect("a project");
    };
    round_trips::are_at_most_one_more_than_those_of_the_handler_alone::<SqlxStack>(EXPECTED, bare).await;
}

#[tokio::test]
async fn are_more_with_final_errors() {
    round_trips::are_more_with_final_errors::<SqlxStack>(EXPECTED).await;
}
