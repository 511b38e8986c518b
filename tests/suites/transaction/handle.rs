//! The transaction in the hands of a handler.

use crate::harness::insert;
use crate::prelude::*;

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
