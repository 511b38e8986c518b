//! The transaction in the hands of a handler that writes with diesel's own queries.

use diesel::{ExpressionMethods as _, QueryDsl as _, result::Error};
use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl as _};
use driver_suite::{Call, Service, names, pool};
use tonic_idempotency::store::TransactionErrorKind;
use tonic_idempotency_diesel::TransactionError;
use tonic_idempotency_tests::Database;
use uuid::Uuid;

use crate::stack::DeadpoolStack;

diesel::table! {
    tenant.clusters (id) {
        id -> Uuid,
    }
}

diesel::table! {
    tenant.projects (id) {
        id -> Uuid,
        cluster_id -> Uuid,
        name -> Text,
    }
}

/// A repository.
async fn insert(connection: &mut AsyncPgConnection, cluster: Uuid, name: &str) -> Result<Uuid, TransactionError> {
    let values = (projects::cluster_id.eq(cluster), projects::name.eq(name));
    Ok(diesel::insert_into(projects::table).values(values).returning(projects::id).get_result(connection).await?)
}

/// A repository that has a transaction of its own.
async fn insert_twice(
    connection: &mut AsyncPgConnection,
    cluster: Uuid,
    name: &str,
) -> Result<usize, TransactionError> {
    let values = vec![(projects::cluster_id.eq(cluster), projects::name.eq(name.to_owned())); 2];
    let transaction = connection.transaction(async move |connection| {
        Ok::<_, TransactionError>(diesel::insert_into(projects::table).values(values).execute(connection).await?)
    });
    transaction.await
}

#[tokio::test]
async fn is_a_connection_of_diesel() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let service =
        Service::new(&database, pool::<DeadpoolStack>(&database, 2), |call: Call<DeadpoolStack>| async move {
            let mut connection = call.connection().await?;
            let cluster = clusters::table.select(clusters::id).first::<Uuid>(&mut connection).await;
            let cluster = cluster.map_err(TransactionError::from)?;
            let id = insert(&mut connection, cluster, &call.name).await?;
            assert_eq!(insert_twice(&mut connection, cluster, "twice").await?, 2);
            let found = projects::table.find(id).select(projects::name).first::<String>(&mut connection).await;
            assert_eq!(found.map_err(TransactionError::from)?, call.name);
            let missing = projects::table.find(Uuid::nil()).select(projects::id).first::<Uuid>(&mut connection).await;
            let missing = TransactionError::from(missing.expect_err("no such project"));
            assert!(matches!(missing.as_diesel_error(), Some(Error::NotFound)));
            assert_eq!((missing.kind(), missing.code()), (TransactionErrorKind::Refused, None));
            Ok(id)
        })
        .await;
    service.create("shop").await.expect("a call");
    assert_eq!(names(&owner).await, ["shop", "twice", "twice"]);
}
