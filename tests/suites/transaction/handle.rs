//! The transaction in the hands of a handler.

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
