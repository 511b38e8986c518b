//! The handler on SeaORM.

use http::Extensions;
use sea_orm::{
    ActiveValue::Set, ConnectOptions, ConnectionTrait, Database, DatabaseConnection, DbBackend, DbErr, EntityTrait,
    Statement, TransactionTrait as _, sqlx::Executor as _,
};
use tonic::Status;
use tonic_idempotency::store::Store;
use tonic_idempotency_sea_orm::{SeaOrm, SeaOrmStore, Transaction, TransactionError};
use uuid::Uuid;

use super::service::{CONNECTIONS, Handler, SET_ROLE, failed};
use crate::{database::handler::SET_USER, error::Error};

mod project {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(schema_name = "tenant", table_name = "projects")]
    pub(super) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub(super) id: Uuid,
        pub(super) cluster_id: Uuid,
        pub(super) name: String,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(super) enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

#[derive(Clone)]
pub(super) struct Projects {
    database: DatabaseConnection,
}

impl Projects {
    pub(super) async fn new(url: String) -> Result<Self, Error> {
        let mut options = ConnectOptions::new(url);
        options.max_connections(u32::try_from(CONNECTIONS)?).sqlx_logging(false);
        options.map_sqlx_postgres_pool_opts(|options| {
            options.after_connect(|connection, _| Box::pin(async move { connection.execute(SET_ROLE).await.map(drop) }))
        });
        Ok(Self { database: Database::connect(options).await? })
    }
}

impl Handler for Projects {
    fn store(&self) -> Result<impl Store + Clone, Error> {
        Ok(SeaOrmStore::new(SeaOrm::new(&self.database)?, organization::resource_types()))
    }

    async fn insert(&self, user: Uuid, cluster: Uuid, name: String) -> Result<Uuid, Status> {
        let transaction = self.database.begin().await.map_err(failed)?;
        let set_user = Statement::from_sql_and_values(DbBackend::Postgres, SET_USER, [user.to_string().into()]);
        transaction.execute_raw(set_user).await.map_err(failed)?;
        let project = insert(&transaction, cluster, name).await.map_err(failed)?;
        transaction.commit().await.map_err(failed)?;
        Ok(project)
    }

    async fn insert_in(call: &Extensions, cluster: Uuid, name: String) -> Result<Uuid, Status> {
        let transaction = Transaction::from_extensions(call)?;
        Ok(insert(&transaction, cluster, name).await.map_err(TransactionError::from)?)
    }
}

async fn insert(database: &impl ConnectionTrait, cluster: Uuid, name: String) -> Result<Uuid, DbErr> {
    let project = project::ActiveModel { cluster_id: Set(cluster), name: Set(name), ..Default::default() };
    Ok(project::Entity::insert(project).exec(database).await?.last_insert_id)
}
