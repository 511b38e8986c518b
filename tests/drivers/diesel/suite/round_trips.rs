//! Round trips to PostgreSQL of whole calls, compared with the same handler without the layer.

use diesel::{sql_query, sql_types::Text};
use diesel_async::{AsyncConnection as _, RunQueryDsl as _};
use driver_suite::round_trips::{self, Expected};
use tonic_idempotency_diesel::TransactionError;
use uuid::Uuid;

use crate::stack::{Deadpool, DeadpoolStack, insert};

/// The user and the insert take two each: diesel does not keep their texts prepared.
const EXPECTED: Expected = Expected {
    bare: 6,           // BEGIN, the user, insert, COMMIT
    user: 2,           // set_config
    keyed: 5,          // BEGIN and claim, insert, record, COMMIT
    replayed: 3,       // BEGIN and claim, the record of a key that is not free, ROLLBACK
    without_key: 4,    // BEGIN and the user, insert, COMMIT
    with_savepoint: 6, // BEGIN and claim, savepoint, insert, record, COMMIT
    final_error: 6,    // BEGIN and claim, savepoint, insert, ROLLBACK TO and record, COMMIT
    returned: 0,
};

/// The handler with diesel alone.
async fn bare(pool: &Deadpool, user: Uuid) -> Result<Uuid, TransactionError> {
    let mut connection = pool.get().await.expect("a connection");
    let transaction = connection.transaction(async |connection| {
        let set = sql_query("SELECT set_config('app.current_user_id', $1, true)").bind::<Text, _>(user.to_string());
        set.execute(connection).await?;
        insert(connection, "bare").await
    });
    transaction.await
}

#[tokio::test]
async fn are_at_most_one_more_than_those_of_the_handler_alone() {
    let bare = async |pool: &Deadpool, user| {
        bare(pool, user).await.expect("a project");
    };
    round_trips::are_at_most_one_more_than_those_of_the_handler_alone::<DeadpoolStack>(EXPECTED, bare).await;
}

#[tokio::test]
async fn are_more_with_final_errors() {
    round_trips::are_more_with_final_errors::<DeadpoolStack>(EXPECTED).await;
}
