//! The sample on tokio-postgres, with its records on a Redis Cluster.

use std::{env, time::Duration};

use deadpool_postgres::Pool;
use organization::{ApiDatabase, Driver, Guard, InvitesReconciler, Overrides, TokioPostgres};
use tokio_postgres::types::Type;
use tonic::service::Routes;
use tonic_idempotency::{
    Caller,
    layer::IdempotencyLayerBuilder,
    status::{OutboxStatus, Resource, StatusResolver},
};
use tonic_idempotency_redis::{Durability, RedisStore, redis::cluster::ClusterClientBuilder};

use crate::error::Error;

/// The environment variable with the addresses of the cluster, separated by commas. Without any, the records are in PostgreSQL.
pub(crate) const REDIS_URLS: &str = "REDIS_URLS";

/// The environment variable with the number of replicas that a write has to reach.
pub(crate) const REDIS_REPLICAS: &str = "REDIS_REPLICAS";

const SET_USER: &str = "SELECT set_config('app.current_user_id', $1, true)";

const STATUS: &str = "SELECT tenant.idempotency_resource_status($1, $2)";

/// Whether the records are on Redis.
pub(super) fn is_wanted() -> bool {
    env::var(REDIS_URLS).is_ok_and(|urls| !urls.is_empty())
}

/// The sample's handlers on tokio-postgres, beside a store on Redis.
#[derive(Debug)]
pub(super) struct SampleOnRedis {
    handlers: TokioPostgres,
    statuses: Pool,
    store: RedisStore,
}

impl Driver for SampleOnRedis {
    type Store = RedisStore;
    type InvitesReconciler = InvitesReconciler;

    fn new(database: &ApiDatabase, commit_delay: Duration) -> Result<Self, Error> {
        let urls = env::var(REDIS_URLS)?;
        let replicas = env::var(REDIS_REPLICAS)?.parse()?;
        let store = RedisStore::cluster(ClusterClientBuilder::new(urls.split(',')))?;
        Ok(Self {
            handlers: TokioPostgres::new(database, commit_delay)?,
            statuses: organization::pool(&database.url)?,
            store: store.durability(Durability::replicas(replicas)),
        })
    }

    async fn store(&self, _max_batch: Option<u16>) -> Result<RedisStore, Error> {
        self.store.verify().await?;
        Ok(self.store.clone())
    }

    fn complete(&self, builder: IdempotencyLayerBuilder, _overrides: Overrides) -> IdempotencyLayerBuilder {
        builder.status_resolver(Statuses(self.statuses.clone()))
    }

    fn invites_reconciler(&self) -> InvitesReconciler {
        self.handlers.invites_reconciler()
    }

    fn services(&self, guard: &Guard) -> Routes {
        self.handlers.services(guard)
    }

    async fn close(&self) {
        self.statuses.close();
        self.handlers.close().await;
    }
}

/// Looks the status of a resource up in the sample's outbox, as the function of its migrations does.
#[derive(Debug)]
struct Statuses(Pool);

impl StatusResolver for Statuses {
    type Error = Error;

    async fn status(&self, caller: &Caller, resource: &Resource) -> Result<Option<OutboxStatus>, Error> {
        let mut connection = self.0.get().await?;
        let transaction = connection.transaction().await?;
        let user = caller.owner().as_uuid().to_string();
        transaction.query_typed(SET_USER, &[(&user, Type::TEXT)]).await?;
        let id = resource.id.to_text();
        let rows = transaction.query_typed(STATUS, &[(&resource.resource_type, Type::TEXT), (&id, Type::TEXT)]).await?;
        transaction.commit().await?;
        let status: Option<&str> = rows.first().map(|row| row.try_get(0)).transpose()?.flatten();
        Ok(status.map(str::parse).transpose()?)
    }
}
