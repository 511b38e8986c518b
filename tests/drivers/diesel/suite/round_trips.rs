//! Round trips to PostgreSQL of whole calls, compared with the same handler without the layer.

use diesel::{sql_query, sql_types::Text};
use diesel_async::{AsyncConnection as _, RunQueryDsl as _};
use driver_suite::{Call, RoundTrips, Service};
use tonic::{Code, Status};
use tonic_idempotency::policy::ProcedureBuilder;
use tonic_idempotency_diesel::TransactionError;
use tonic_idempotency_tests::Database;
use uuid::Uuid;

use crate::stack::{Deadpool, DeadpoolStack, insert};

type Count = RoundTrips<DeadpoolStack>;

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
    let database = Database::new().await;
    let mut count = Count::new(&database).await;
    let script = |call: Call<DeadpoolStack>| async move { call.insert().await };
    let service = Service::new(&database, count.pool.clone(), script).await;
    let user = service.user.expect("a user");
    // The statements are prepared once for each connection.
    service.with_new_key().create("shop").await.expect("a call");
    service.with_key(None).create("shop").await.expect("a call");
    count.take().await;

    bare(&count.pool, user).await.expect("a project");
    let bare = count.take().await;
    assert_eq!(bare, 6, "BEGIN, the user (2: a text that diesel does not keep prepared), insert (2), COMMIT");

    service.create("shop").await.expect("a call");
    let keyed = count.take().await;
    assert_eq!(keyed, 5, "BEGIN and claim, insert (2), record, COMMIT");
    let without_the_user = bare - 2;
    assert!(keyed <= without_the_user + 1, "the record");

    service.create("shop").await.expect("a replay");
    assert!(count.take().await <= 2, "BEGIN and claim, and ROLLBACK behind the answer");

    service.with_key(None).create("shop").await.expect("a call");
    assert_eq!(count.take().await, 4, "BEGIN and the user, insert (2), COMMIT");
}

#[tokio::test]
async fn are_one_more_with_final_errors() {
    let database = Database::new().await;
    let mut count = Count::new(&database).await;
    let describe = |procedure: ProcedureBuilder| procedure.final_errors([Code::FailedPrecondition]);
    let service = Service::with(&database, count.pool.clone(), describe, |call: Call<DeadpoolStack>| async move {
        let project = call.insert().await?;
        if call.name == "final" { Err(Status::failed_precondition("never")) } else { Ok(project) }
    })
    .await;
    service.with_new_key().create("shop").await.expect("a call");
    count.take().await;
    service.create("shop").await.expect("a call");
    assert_eq!(count.take().await, 6, "BEGIN and claim, savepoint, insert (2), record, COMMIT");
    service.with_new_key().create("final").await.expect_err("it fails");
    assert_eq!(count.take().await, 6, "BEGIN and claim, savepoint, insert (2), ROLLBACK TO and record, COMMIT");
}
