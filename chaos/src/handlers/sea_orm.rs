//! Handlers on sea-orm.

use std::time::Duration;

use organization::{ApiDatabase, Call, Driver, Guard, resource_types, set_up, sqlx_pool};
use sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr, QueryResult, SqlxPostgresConnector,
    Statement, TransactionTrait as _, Value,
};
use tonic::{Status, service::Routes};
use tonic_idempotency_sea_orm::{SeaOrmStore, Transaction, TransactionError};
use uuid::Uuid;

use super::{Database, Row, services::Handlers};
use crate::error::Error;

const INSERT_CLUSTER: &str = "INSERT INTO tenant.clusters (name, region) VALUES ($1, $2) RETURNING id";

const INSERT_INVITATION: &str =
    "INSERT INTO tenant.organization_users (email, role, idempotency_key) VALUES ($1, $2, $3) RETURNING id";

const INSERT_PROJECT: &str = "INSERT INTO tenant.projects (cluster_id, name) VALUES ($1, $2) RETURNING id";

const SELECT_INVITATION: &str = "SELECT id, email FROM tenant.organization_users \
     WHERE invited_by = $1 AND idempotency_key = $2 ORDER BY id LIMIT 1";

const SEND_MAIL: &str = "INSERT INTO tenant.mails (invitation_id, recipient) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING invitation_id";

const SET_USER: &str = "SELECT set_config('app.current_user_id', $1, true)";

/// The driver: sea-orm, on pools of sqlx.
#[derive(Debug)]
pub(crate) struct SeaOrm {
    handlers: Handlers<Handler>,
    pools: [DatabaseConnection; 2],
    store: SeaOrmStore,
}

impl Driver for SeaOrm {
    type Store = SeaOrmStore;
    type InvitesReconciler = Handlers<Handler>;

    fn new(database: &ApiDatabase, commit_delay: Duration) -> Result<Self, Error> {
        let pool = || Ok::<_, Error>(SqlxPostgresConnector::from_sqlx_postgres_pool(sqlx_pool(database)?));
        let pools = [pool()?, pool()?];
        let [store_pool, handler_pool] = pools.clone();
        let store = SeaOrmStore::new(tonic_idempotency_sea_orm::SeaOrm::new(&store_pool)?, resource_types());
        Ok(Self { handlers: Handlers::new(Handler { database: handler_pool }, commit_delay), pools, store })
    }

    async fn store(&self, max_batch: Option<u16>) -> Result<SeaOrmStore, Error> {
        set_up(self.store.clone(), max_batch).await
    }

    fn invites_reconciler(&self) -> Handlers<Handler> {
        self.handlers.clone()
    }

    fn services(&self, guard: &Guard) -> Routes {
        self.handlers.services(guard)
    }

    async fn close(&self) {
        let [store, handlers] = &self.pools;
        // They are closed in any case.
        let _ = tokio::join!(store.close_by_ref(), handlers.close_by_ref());
    }
}

/// The database of the handlers.
#[derive(Clone, Debug)]
pub(crate) struct Handler {
    database: DatabaseConnection,
}

#[derive(Debug)]
pub(crate) enum Writes {
    OfCall(Transaction),
    OfHandler(DatabaseTransaction),
}

impl Database for Handler {
    type Writes = Writes;

    async fn begin(&self, call: &Call) -> Result<Writes, Status> {
        if let Ok(transaction) = Transaction::from_extensions(&call.extensions) {
            return Ok(Writes::OfCall(transaction));
        }
        let transaction = self.database.begin().await.map_err(TransactionError::from)?;
        let mut writes = Writes::OfHandler(transaction);
        row(&mut writes, SET_USER, [call.caller.user.to_string().into()]).await?;
        Ok(writes)
    }

    async fn insert(writes: &mut Writes, inserted: Row<'_>) -> Result<Uuid, Status> {
        let row = match inserted {
            Row::Cluster { name, region } => row(writes, INSERT_CLUSTER, [name.into(), region.into()]).await,
            Row::Invitation { email, role, key } => {
                row(writes, INSERT_INVITATION, [email.into(), role.into(), key.into()]).await
            }
            Row::Project { cluster, name } => row(writes, INSERT_PROJECT, [cluster.into(), name.into()]).await,
        };
        let row = row?.ok_or_else(|| TransactionError::from(DbErr::RecordNotInserted))?;
        Ok(row.try_get("", "id").map_err(TransactionError::from)?)
    }

    async fn invitation(writes: &mut Writes, user: Uuid, key: Option<Uuid>) -> Result<Option<(Uuid, String)>, Status> {
        let Some(row) = row(writes, SELECT_INVITATION, [user.into(), key.into()]).await? else { return Ok(None) };
        let found = row.try_get("", "id").and_then(|id| Ok((id, row.try_get("", "email")?)));
        Ok(Some(found.map_err(TransactionError::from)?))
    }

    async fn send_mail(writes: &mut Writes, invitation: Uuid, email: &str) -> Result<(), Status> {
        row(writes, SEND_MAIL, [invitation.into(), email.into()]).await?;
        Ok(())
    }

    fn is_of_handler(writes: &Writes) -> bool {
        matches!(writes, Writes::OfHandler(_))
    }

    async fn end(writes: Writes) -> Result<(), Status> {
        if let Writes::OfHandler(transaction) = writes {
            transaction.commit().await.map_err(TransactionError::from)?;
        }
        Ok(())
    }
}

/// Returns the row of a statement that has at most one.
async fn row<const N: usize>(
    writes: &mut Writes,
    sql: &str,
    values: [Value; N],
) -> Result<Option<QueryResult>, TransactionError> {
    let statement = Statement::from_sql_and_values(DbBackend::Postgres, sql, values);
    Ok(match writes {
        Writes::OfCall(transaction) => transaction.query_one_raw(statement).await?,
        Writes::OfHandler(transaction) => transaction.query_one_raw(statement).await?,
    })
}
