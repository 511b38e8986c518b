//! Transactions, and the statements that they prepare.

use deadpool_postgres::Pool;

use crate::prelude::*;

/// A service on the pool, with these final errors.
async fn service(database: &Database, pool: &Pool, final_errors: &[Code]) -> Service {
    let store = PostgresStore::new(pool.clone(), organization::resource_types()).timeout(Duration::from_secs(60));
    let describe = |procedure: ProcedureBuilder| procedure.final_errors(final_errors.iter().copied());
    Service::built(database, store, describe, |builder| builder, |call: Call| async move { call.insert().await }).await
}

/// With the savepoint that final errors need, which fails together with a stale statement, and without it.
#[tokio::test]
async fn begins_although_its_statements_are_stale() {
    for final_errors in [&[][..], &[Code::FailedPrecondition]] {
        let database = Database::new().await;
        let (owner, pool) = (database.owner().await, database.pool(1));
        let service = service(&database, &pool, final_errors).await;
        let create = async || service.with_key(Some(Uuid::new_v4())).create("shop").await.expect("a call");
        create().await;
        let connection = pool.get().await.expect("a connection");
        connection.batch_execute("DEALLOCATE ALL").await.expect("they are gone");
        drop(connection);
        create().await;
        let sql = "DO $$ DECLARE
                     v_function CONSTANT text := pg_get_functiondef('tenant.idempotency_begin'::regproc);
                 BEGIN
                     DROP FUNCTION tenant.idempotency_begin;
                     EXECUTE replace(v_function, 'OUT state text', 'OUT version integer, OUT state text');
                 END $$";
        owner.batch_execute(sql).await.expect("another version of the function");
        create().await;
        assert_eq!((rows(&owner).await, service.runs()), ([3, 3, 3], 3));
        all_have_ended(&owner).await;
    }
}

/// The server may forget the statements while a handler runs: that call leaves nothing, and the next one prepares them
/// again.
#[tokio::test]
async fn is_rolled_back_if_its_commit_is_stale() {
    let database = Database::new().await;
    let (owner, pool) = (database.owner().await, database.pool(1));
    let store = PostgresStore::new(pool, organization::resource_types());
    let script = |call: Call| async move {
        let project = call.insert().await?;
        if call.name == "forget" {
            call.transaction().batch_execute("DEALLOCATE ALL").await?;
        }
        Ok(project)
    };
    let service = Service::built(&database, store, |procedure| procedure, |builder| builder, script).await;
    service.with_key(Some(Uuid::new_v4())).create("shop").await.expect("a call");
    assert_eq!(service.create("forget").await.expect_err("it is rolled back").code(), Code::Internal);
    assert_eq!(rows(&owner).await, [1, 1, 1]);
    service.create("shop").await.expect("the key is free");
    assert_eq!(rows(&owner).await, [2, 2, 2]);
    all_have_ended(&owner).await;
}
