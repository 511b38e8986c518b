//! Handlers on diesel-async.

use std::{
    fmt,
    ops::{Deref, DerefMut},
    time::Duration,
};

use diesel::{
    ConnectionError, ConnectionResult, ExpressionMethods as _, OptionalExtension as _, QueryDsl as _,
    result::{DatabaseErrorKind, Error},
    sql_types::Text,
};
use diesel_async::{
    AnsiTransactionManager, AsyncPgConnection, RunQueryDsl as _, SimpleAsyncConnection as _, TransactionManager as _,
    pooled_connection::{
        AsyncDieselConnectionManager, ManagerConfig,
        deadpool::{Object, Pool},
    },
};
use organization::{API_ROLE, ApiDatabase, Call, Driver, Guard, LOGIN_ROLE, resource_types, set_up};
use tokio_postgres::{Config, NoTls};
use tonic::{Status, service::Routes};
use tonic_idempotency_diesel::{DieselStore, Transaction, TransactionConnection, TransactionError};
use uuid::Uuid;

use super::{Database, MOST_CONNECTIONS, Row, services::Handlers};
use crate::error;

/// How long a call waits for a connection.
const WAIT: Duration = Duration::from_secs(30);

/// The timeout for opening a connection, and how long one may be silent.
const CONNECT: Duration = Duration::from_secs(5);
const SILENCE: Duration = Duration::from_secs(15);

diesel::table! {
    tenant.clusters (id) {
        id -> Uuid,
        name -> Text,
        region -> Text,
    }
}

diesel::table! {
    tenant.organization_users (id) {
        id -> Uuid,
        email -> Text,
        role -> Text,
        idempotency_key -> Nullable<Uuid>,
        invited_by -> Nullable<Uuid>,
    }
}

diesel::table! {
    tenant.mails (invitation_id) {
        invitation_id -> Uuid,
        recipient -> Text,
    }
}

diesel::table! {
    tenant.projects (id) {
        id -> Uuid,
        cluster_id -> Uuid,
        name -> Text,
    }
}

/// The driver: diesel-async with deadpool.
#[derive(Debug)]
pub(crate) struct Diesel {
    handlers: Handlers<Handler>,
    pools: Pools,
    store: DieselStore,
}

impl Driver for Diesel {
    type Store = DieselStore;
    type InvitesReconciler = Handlers<Handler>;

    fn new(database: &ApiDatabase, commit_delay: Duration) -> Result<Self, error::Error> {
        let pools = Pools([pool(database)?, pool(database)?]);
        let [store_pool, handler_pool] = pools.0.clone();
        let store = DieselStore::new(store_pool, resource_types());
        Ok(Self { handlers: Handlers::new(Handler { pool: handler_pool }, commit_delay), pools, store })
    }

    async fn store(&self, max_batch: Option<u16>) -> Result<DieselStore, error::Error> {
        set_up(self.store.clone(), max_batch).await
    }

    fn invites_reconciler(&self) -> Handlers<Handler> {
        self.handlers.clone()
    }

    fn services(&self, guard: &Guard) -> Routes {
        self.handlers.services(guard)
    }

    async fn close(&self) {
        self.pools.0.iter().for_each(Pool::close);
    }
}

/// The pools of the store and of the handlers.
struct Pools([Pool<AsyncPgConnection>; 2]);

impl fmt::Debug for Pools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pools").finish_non_exhaustive()
    }
}

fn pool(database: &ApiDatabase) -> Result<Pool<AsyncPgConnection>, error::Error> {
    let mut config: Config = database.url.parse()?;
    config.user(LOGIN_ROLE).connect_timeout(CONNECT).tcp_user_timeout(SILENCE);
    config.keepalives_idle(SILENCE).keepalives_interval(SILENCE / 3).keepalives_retries(3);
    let mut manager = ManagerConfig::default();
    manager.custom_setup = Box::new(move |_| Box::pin(connect(config.clone())));
    let manager = AsyncDieselConnectionManager::new_with_config(&database.url, manager);
    let pool = Pool::builder(manager)
        .max_size(MOST_CONNECTIONS)
        .runtime(deadpool::Runtime::Tokio1)
        .wait_timeout(Some(WAIT))
        .create_timeout(Some(CONNECT));
    Ok(pool.build()?)
}

async fn connect(config: Config) -> ConnectionResult<AsyncPgConnection> {
    let (client, connection) = config.connect(NoTls).await.map_err(refused)?;
    let mut connection = AsyncPgConnection::try_from_client_and_connection(client, connection).await?;
    let set_role = format!("SET ROLE {API_ROLE}");
    connection.batch_execute(&set_role).await.map_err(ConnectionError::CouldntSetupConfiguration)?;
    Ok(connection)
}

/// Keeps the server's message: a server that starts or stops is told by it.
fn refused(error: tokio_postgres::Error) -> ConnectionError {
    match error.as_db_error() {
        Some(answer) => {
            let message = Box::new(answer.message().to_owned());
            ConnectionError::CouldntSetupConfiguration(Error::DatabaseError(DatabaseErrorKind::Unknown, message))
        }
        None => ConnectionError::BadConnection(error.to_string()),
    }
}

/// The database of the handlers.
#[derive(Clone)]
pub(crate) struct Handler {
    pool: Pool<AsyncPgConnection>,
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handler").finish_non_exhaustive()
    }
}

pub(crate) enum Writes {
    OfCall(TransactionConnection),
    /// The pool closes a connection that returns with an open transaction.
    OfHandler(Box<Object<AsyncPgConnection>>),
}

impl Database for Handler {
    type Writes = Writes;

    async fn begin(&self, call: &Call) -> Result<Writes, Status> {
        if let Ok(transaction) = Transaction::from_extensions(&call.extensions) {
            return Ok(Writes::OfCall(transaction.connection().await?));
        }
        let mut connection =
            self.pool.get().await.map_err(|error| Status::unavailable(format!("no connection: {error}")))?;
        AnsiTransactionManager::begin_transaction(&mut *connection).await.map_err(TransactionError::from)?;
        diesel::sql_query("SELECT set_config('app.current_user_id', $1, true)")
            .bind::<Text, _>(call.caller.user.to_string())
            .execute(&mut connection)
            .await
            .map_err(TransactionError::from)?;
        Ok(Writes::OfHandler(Box::new(connection)))
    }

    async fn insert(writes: &mut Writes, row: Row<'_>) -> Result<Uuid, Status> {
        let inserted = match row {
            Row::Cluster { name, region } => {
                let values = (clusters::name.eq(name), clusters::region.eq(region));
                diesel::insert_into(clusters::table)
                    .values(values)
                    .returning(clusters::id)
                    .get_result(&mut **writes)
                    .await
            }
            Row::Invitation { email, role, key } => {
                use self::organization_users as invitations;
                let values =
                    (invitations::email.eq(email), invitations::role.eq(role), invitations::idempotency_key.eq(key));
                diesel::insert_into(invitations::table)
                    .values(values)
                    .returning(invitations::id)
                    .get_result(&mut **writes)
                    .await
            }
            Row::Project { cluster, name } => {
                let values = (projects::cluster_id.eq(cluster), projects::name.eq(name));
                diesel::insert_into(projects::table)
                    .values(values)
                    .returning(projects::id)
                    .get_result(&mut **writes)
                    .await
            }
        };
        Ok(inserted.map_err(TransactionError::from)?)
    }

    async fn invitation(writes: &mut Writes, user: Uuid, key: Option<Uuid>) -> Result<Option<(Uuid, String)>, Status> {
        use self::organization_users as invitations;
        let found = invitations::table
            .filter(invitations::invited_by.eq(user))
            .filter(invitations::idempotency_key.eq(key))
            .order(invitations::id)
            .select((invitations::id, invitations::email))
            .first(&mut **writes)
            .await;
        Ok(found.optional().map_err(TransactionError::from)?)
    }

    async fn send_mail(writes: &mut Writes, invitation: Uuid, email: &str) -> Result<(), Status> {
        let values = (mails::invitation_id.eq(invitation), mails::recipient.eq(email));
        let insert = diesel::insert_into(mails::table).values(values).on_conflict_do_nothing();
        insert.execute(&mut **writes).await.map_err(TransactionError::from)?;
        Ok(())
    }

    fn is_of_handler(writes: &Writes) -> bool {
        matches!(writes, Writes::OfHandler(_))
    }

    async fn end(writes: Writes) -> Result<(), Status> {
        if let Writes::OfHandler(mut connection) = writes {
            AnsiTransactionManager::commit_transaction(&mut **connection).await.map_err(TransactionError::from)?;
        }
        Ok(())
    }
}

impl Deref for Writes {
    type Target = AsyncPgConnection;

    fn deref(&self) -> &AsyncPgConnection {
        match self {
            Self::OfCall(connection) => connection,
            Self::OfHandler(connection) => connection,
        }
    }
}

impl DerefMut for Writes {
    fn deref_mut(&mut self) -> &mut AsyncPgConnection {
        match self {
            Self::OfCall(connection) => connection,
            Self::OfHandler(connection) => connection,
        }
    }
}
