//! The transaction in the hands of a handler.

use std::sync::{Arc, Mutex};

use tokio_postgres::types::Type;
use tonic::Code;
use tonic_idempotency::{Transaction, store::TransactionErrorKind};
use tonic_idempotency_tests::Database;

use crate::harness::{Call, Service, insert, rows};

/// Holds a handle beyond its call.
type Kept = Arc<Mutex<Option<Transaction>>>;

#[tokio::test]
async fn is_dead_once_the_call_has_ended() {
    for succeeds in [true, false] {
        let database = Database::new().await;
        let kept = Kept::default();
        let keep = Arc::clone(&kept);
        let service = Service::new(&database, database.pool(2), move |call: Call| {
            let keep = Arc::clone(&keep);
            async move {
                *keep.lock().expect("no panic") = Some(call.transaction());
                let project = call.insert().await?;
                if succeeds { Ok(project) } else { Err(tonic::Status::not_found("not now")) }
            }
        })
        .await;
        assert_eq!(service.create("shop").await.is_ok(), succeeds);
        let transaction = kept.lock().expect("no panic").take().expect("the handle");
        let dead = insert(&transaction, "late").await.expect_err("the call has ended");
        assert_eq!(dead.code(), Code::Internal);
        let dead = transaction.query("SELECT 1", &[]).await.expect_err("the call has ended");
        assert_eq!(dead.kind(), TransactionErrorKind::Ended);
        let dead = transaction.savepoint().await.map(drop).expect_err("the call has ended");
        assert_eq!(dead.kind(), TransactionErrorKind::Ended);
        assert_eq!(rows(&database.owner().await).await[0], i64::from(succeeds));
    }
}

#[tokio::test]
async fn can_be_cloned_into_helpers_and_used_at_once() {
    let database = Database::new().await;
    let service = Service::new(&database, database.pool(2), |call: Call| async move {
        let inserts = (0..8).map(|number| {
            let transaction = call.transaction();
            tokio::spawn(async move { insert(&transaction, &format!("helper {number}")).await })
        });
        for insert in inserts.collect::<Vec<_>>() {
            insert.await.expect("no panic")?;
        }
        call.insert().await
    })
    .await;
    service.create("shop").await.expect("a call");
    assert_eq!(rows(&database.owner().await).await, [9, 9, 1]);
}

#[tokio::test]
async fn has_its_callers_user_set() {
    let database = Database::new().await;
    let service = Service::new(&database, database.pool(2), |call: Call| async move {
        let row = call.transaction().query_one("SELECT authn.current_user_id()::text", &[]).await?;
        insert(&call.transaction(), row.get(0)).await
    })
    .await;
    service.create("shop").await.expect("a call");
    let owner = database.owner().await;
    let name: String = owner.query_one("SELECT name FROM tenant.projects", &[]).await.expect("the project").get(0);
    assert_eq!(Some(name), service.user.map(|user| user.to_string()));
}

/// The handler may change the setting; the record still belongs to its caller.
#[tokio::test]
async fn keeps_the_record_for_its_user_whatever_the_handler_sets() {
    let database = Database::new().await;
    let service = Service::new(&database, database.pool(2), |call: Call| async move {
        let project = call.insert().await?;
        let set = "SELECT set_config('app.current_user_id', gen_random_uuid()::text, true)";
        call.transaction().query(set, &[]).await?;
        Ok(project)
    })
    .await;
    let first = service.create("shop").await.expect("a call");
    let replay = service.create("shop").await.expect("a replay");
    assert_eq!((replay.replayed, replay.project), (true, first.project));
}

#[tokio::test]
async fn runs_every_kind_of_statement() {
    let database = Database::new().await;
    let service = Service::new(&database, database.pool(2), |call: Call| async move {
        let transaction = call.transaction();
        let one = "SELECT $1::int4 + 1 AS sum";
        let parameter: &[(&(dyn tokio_postgres::types::ToSql + Sync), Type)] = &[(&1, Type::INT4)];
        assert_eq!(transaction.query(one, &[&1]).await?.len(), 1);
        assert_eq!(transaction.query_one(one, &[&1]).await?.get::<_, i32>("sum"), 2);
        assert!(transaction.query_opt("SELECT 1 WHERE false", &[]).await?.is_none());
        assert_eq!(transaction.query_typed(one, parameter).await?.len(), 1);
        assert_eq!(transaction.query_typed_one(one, parameter).await?.get::<_, i32>("sum"), 2);
        assert!(transaction.query_typed_opt("SELECT 1 WHERE false", &[]).await?.is_none());
        assert_eq!(transaction.execute(one, &[&1]).await?, 1);
        assert_eq!(transaction.execute_typed(one, parameter).await?, 1);
        for statement in [transaction.prepare(one).await?, transaction.prepare_cached(one).await?] {
            assert_eq!(transaction.query_one(&statement, &[&2]).await?.get::<_, i32>(0), 3);
        }
        transaction.batch_execute("SELECT 1; SELECT 2").await?;
        call.insert().await
    })
    .await;
    service.create("shop").await.expect("a call");
}

#[tokio::test]
async fn rolls_a_savepoint_back_alone() {
    let database = Database::new().await;
    let service = Service::new(&database, database.pool(2), |call: Call| async move {
        let transaction = call.transaction();

        let kept = transaction.savepoint().await?;
        insert(&kept, "kept").await?;
        kept.commit().await?;

        let undone = transaction.savepoint().await?;
        insert(&undone, "undone").await?;
        undone.roll_back().await?;

        let failed = transaction.savepoint().await?;
        insert(&failed, "failed").await?;
        failed.execute("SELECT 1 / 0", &[]).await.expect_err("a division by zero");
        failed.commit().await.expect_err("it has failed");

        let outer = transaction.savepoint().await?;
        insert(&outer, "outer").await?;
        {
            let dropped = outer.savepoint().await?;
            insert(&dropped, "dropped").await?;
        }
        outer.commit().await?;

        let dropped = transaction.savepoint().await?;
        insert(&dropped, "dropped at the end").await?;
        let project = call.transaction().query_one("SELECT id FROM tenant.projects WHERE name = 'kept'", &[]).await?;
        drop(dropped);
        Ok(project.get(0))
    })
    .await;
    service.create("shop").await.expect("a call");
    let owner = database.owner().await;
    let names = owner.query("SELECT name FROM tenant.projects ORDER BY name", &[]).await.expect("the projects");
    assert_eq!(names.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>(), ["kept", "outer"]);
}

#[tokio::test]
async fn is_missing_if_the_procedure_is_in_reserved_mode() {
    let database = Database::new().await;
    let describe = |procedure: tonic_idempotency::policy::ProcedureBuilder| {
        procedure.mode(tonic_idempotency::policy::Mode::Reserved)
    };
    let service = Service::with(&database, database.pool(2), describe, |call: Call| async move {
        let missing = call.transaction.expect_err("no transaction");
        assert_eq!(missing.kind(), TransactionErrorKind::Missing);
        Err(missing.into())
    })
    .await;
    let status = service.create("shop").await.expect_err("no transaction");
    assert_eq!(status.code(), Code::Internal);
}
