//! Round trips to PostgreSQL of whole calls, compared with the same handler without the layer.

use driver_suite::{Call, RoundTrips, Service};
use sqlx::PgPool;
use tonic::{Code, Status};
use tonic_idempotency::policy::ProcedureBuilder;
use tonic_idempotency_tests::Database;
use uuid::Uuid;

use crate::stack::{SqlxStack, insert};

type Count = RoundTrips<SqlxStack>;

/// The ping of a connection that returns to the pool, which nobody waits for.
const RETURN: usize = 1;

/// The handler with sqlx alone.
async fn bare(pool: &PgPool, user: Uuid) -> Result<Uuid, tonic_idempotency_sqlx::TransactionError> {
    let mut transaction = pool.begin().await?;
    let set = "SELECT set_config('app.current_user_id', $1, true)";
    sqlx::query(set).bind(user.to_string()).execute(&mut *transaction).await?;
    let project = insert(&mut transaction, "bare").await?;
    transaction.commit().await?;
    Ok(project)
}

#[tokio::test]
async fn are_at_most_one_more_than_those_of_the_handler_alone() {
    let database = Database::new().await;
    let mut count = Count::new(&database).await;
    let service =
        Service::new(&database, count.pool.clone(), |call: Call<SqlxStack>| async move { call.insert().await }).await;
    let user = service.user.expect("a user");
    // The statements are prepared once for each connection.
    bare(&count.pool, user).await.expect("a project");
    service.with_new_key().create("shop").await.expect("a call");
    service.with_key(None).create("shop").await.expect("a call");
    count.take().await;

    bare(&count.pool, user).await.expect("a project");
    let bare = count.take().await - RETURN;
    assert_eq!(bare, 6, "ping, BEGIN, the user, insert (2: not prepared), COMMIT");

    service.create("shop").await.expect("a call");
    let keyed = count.take().await - RETURN;
    assert_eq!(keyed, 6, "BEGIN, claim, insert (2), record, COMMIT");
    let without_the_user = bare - 1;
    assert!(keyed <= without_the_user + 1, "claim and record for ping");

    service.create("shop").await.expect("a replay");
    assert!(count.take().await - RETURN <= 3, "BEGIN, claim, and ROLLBACK behind the answer");

    service.with_key(None).create("shop").await.expect("a call");
    assert_eq!(count.take().await - RETURN, 6, "BEGIN, the user, insert (2), a look, COMMIT");
}

#[tokio::test]
async fn are_one_more_with_final_errors() {
    let database = Database::new().await;
    let mut count = Count::new(&database).await;
    let describe = |procedure: ProcedureBuilder| procedure.final_errors([Code::FailedPrecondition]);
    let service = Service::with(&database, count.pool.clone(), describe, |call: Call<SqlxStack>| async move {
        let project = call.insert().await?;
        if call.name == "final" { Err(Status::failed_precondition("never")) } else { Ok(project) }
    })
    .await;
    service.with_new_key().create("shop").await.expect("a call");
    count.take().await;
    service.create("shop").await.expect("a call");
    assert_eq!(count.take().await - RETURN, 7, "BEGIN, claim, savepoint, insert (2), record, COMMIT");
    service.with_new_key().create("final").await.expect_err("it fails");
    assert_eq!(count.take().await - RETURN, 8, "BEGIN, claim, savepoint, insert (2), ROLLBACK TO, record, COMMIT");
}
