//! The handler on diesel-async.

use deadpool_postgres::QueueMode;
use diesel::{
    ConnectionError, ConnectionResult, ExpressionMethods as _, QueryResult, define_sql_function,
    sql_types::{Bool, Text},
};
use diesel_async::{
    AsyncConnection as _, AsyncPgConnection, RunQueryDsl as _, SimpleAsyncConnection as _,
    pooled_connection::{AsyncDieselConnectionManager, ManagerConfig, RecyclingMethod, deadpool::Pool},
};
use http::Extensions;
use tonic::Status;
use tonic_idempotency::store::Store;
use tonic_idempotency_diesel::{DieselStore, Transaction, TransactionError};
use uuid::Uuid;

use super::service::{CONNECTIONS, Handler, SET_ROLE, failed};
use crate::error::Error;

diesel::table! {
    tenant.projects (id) {
        id -> Uuid,
        cluster_id -> Uuid,
        name -> Text,
    }
}

define_sql_function! {
    fn set_config(name: Text, value: Text, is_local: Bool) -> Text;
}

#[derive(Clone)]
pub(super) struct Projects {
    pool: Pool<AsyncPgConnection>,
}

impl Projects {
    pub(super) fn new(url: &str) -> Result<Self, Error> {
        let mut config = ManagerConfig::default();
        config.custom_setup = Box::new(|url| Box::pin(connect(url.to_owned())));
        config.recycling_method = RecyclingMethod::Fast; // no round trip, as in the pool of tokio-postgres
        let manager = AsyncDieselConnectionManager::new_with_config(url, config);
        Ok(Self { pool: Pool::builder(manager).max_size(CONNECTIONS).queue_mode(QueueMode::Lifo).build()? })
    }
}

async fn connect(url: String) -> ConnectionResult<AsyncPgConnection> {
    let mut connection = AsyncPgConnection::establish(&url).await?;
    connection.batch_execute(SET_ROLE).await.map_err(ConnectionError::CouldntSetupConfiguration)?;
    Ok(connection)
}

impl Handler for Projects {
    fn store(&self) -> Result<impl Store + Clone, Error> {
        Ok(DieselStore::new(self.pool.clone(), organization::resource_types()))
    }

    async fn insert(&self, user: Uuid, cluster: Uuid, name: String) -> Result<Uuid, Status> {
        let mut connection = self.pool.get().await.map_err(failed)?;
        let inserted = connection.transaction(async |connection| {
            let set_user = set_config("app.current_user_id", user.to_string(), true);
            diesel::select(set_user).execute(connection).await?;
            insert(connection, cluster, &name).await
        });
        inserted.await.map_err(failed)
    }

    async fn insert_in(call: &Extensions, cluster: Uuid, name: String) -> Result<Uuid, Status> {
        let mut connection = Transaction::from_extensions(call)?.connection().await?;
        Ok(insert(&mut connection, cluster, &name).await.map_err(TransactionError::from)?)
    }
}

async fn insert(connection: &mut AsyncPgConnection, cluster: Uuid, name: &str) -> QueryResult<Uuid> {
    let values = (projects::cluster_id.eq(cluster), projects::name.eq(name));
    diesel::insert_into(projects::table).values(values).returning(projects::id).get_result(connection).await
}
