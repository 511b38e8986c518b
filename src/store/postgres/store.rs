//! [`PostgresStore`].

use std::{sync::Arc, time::Duration};

use deadpool_postgres::Pool;
use tokio_postgres::{error::SqlState, types::Type};
use uuid::Uuid;

use super::{
    columns::{Columns, on_lease_ended, resource_column},
    connection::{self, Connections},
    row::{abandoned_key, claim_outcome, column, corrupt, parse_status},
    transaction::Open,
};
use crate::{
    policy::EffectPolicy,
    status::{OutboxStatus, Resource},
    store::{
        AbandonOutcome, AbandonedKey, AbandonedQuery, BeginOutcome, Claim, ClaimOutcome, CompleteOutcome, Completion,
        ExtendOutcome, ReleaseOutcome, Reservation, ResourceTypes, Store, StoreError, StoreTransaction,
        TransactionOptions,
    },
    telemetry::Chain,
    user::UserId,
};

/// A store that keeps records in PostgreSQL 14 or later, under row-level security, in the table
/// `tenant.idempotency_keys`: see [`migrations`](crate::migrations).
///
/// Each operation is one statement and one network round trip. It sets the user for that statement only, and leaves
/// neither a transaction nor a setting on the connection. The handler of a transactional procedure gets a
/// [`Transaction`](crate::Transaction), which takes one of the pool's connections until it ends.
///
/// ```no_run
/// use deadpool_postgres::{Manager, Pool};
/// use std::time::Duration;
/// use tonic_idempotency::store::{PostgresStore, ResourceType, ResourceTypes};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let manager = Manager::new("host=localhost user=my_api dbname=my_app".parse()?, tokio_postgres::NoTls);
/// let pool = Pool::builder(manager).max_size(16).build()?;
///
/// // Default: gives up on an operation after five seconds.
/// let store = PostgresStore::new(pool.clone(), ResourceTypes::none());
/// // Customised.
/// let types = ResourceTypes::new([ResourceType::new("invoice", "invoice_id", "billing.invoices")]);
/// let patient = PostgresStore::new(pool, types)
///     .prepared_statements()
///     .timeout(Duration::from_secs(10));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct PostgresStore {
    connections: Connections,
    resource_types: Arc<ResourceTypes>,
}

impl PostgresStore {
    /// Makes a store from a pool of connections and the resource types that are registered in the database. The
    /// connections have to log in as the API's own role: row-level security does not apply to superusers.
    pub fn new(pool: Pool, resource_types: ResourceTypes) -> Self {
        Self { connections: Connections::new(pool, Duration::from_secs(5)), resource_types: Arc::new(resource_types) }
    }

    /// Prepares the store's statements once for each connection, which takes one more round trip then. Defaults to off:
    /// the server parses and plans a statement each time, which works everywhere. `docs/benchmarks.md` shows how much
    /// this saves.
    ///
    /// **Not behind PgBouncer** (or another pooler) in transaction mode, unless the pooler tracks prepared statements:
    /// PgBouncer does from version 1.21, with `max_prepared_statements`. Without tracking, clients share a server
    /// connection, and find there the statements of other clients under the same names.
    ///
    /// A stale statement is prepared again: its function was replaced, or the server has forgotten it. If a
    /// transactional handler executes `DEALLOCATE ALL`, the statement that writes the record is lost, and the call is
    /// rolled back.
    pub fn prepared_statements(mut self) -> Self {
        self.connections = self.connections.prepared_statements();
        self
    }

    /// Limits how long an operation may take, including the wait for a connection and further attempts. More than zero,
    /// at most 1 hour; a longer timeout counts as 1 hour. Defaults to 5 seconds.
    ///
    /// An operation that takes longer fails, as if the store were unavailable. This includes the wait for a connection
    /// of a pool that handlers have exhausted: give the store a pool of its own. The outcome of a COMMIT that takes
    /// longer is looked up, for at most the same time again. The handler of a transactional procedure is not limited.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.connections = self.connections.timeout(timeout);
        self
    }

    async fn complete_with(
        &self,
        reservation: &Reservation,
        completion: &Completion,
        resource: Option<(&str, Uuid)>,
    ) -> Result<CompleteOutcome, StoreError> {
        let outcome = Columns::of(&completion.response);
        let row = self
            .connections
            .query_one(
                include_str!("sql/complete.sql"),
                &[
                    (reservation.user.as_uuid(), Type::UUID),
                    (reservation.key.as_uuid(), Type::UUID),
                    (&reservation.token, Type::UUID),
                    (&outcome.response, Type::BYTEA),
                    (&outcome.not_stored, Type::BOOL),
                    (&outcome.error, Type::BYTEA),
                    (&outcome.metadata, Type::BYTEA),
                    (&completion.retention.as_secs_f64(), Type::FLOAT8),
                    (&resource.map(|(column, _)| column), Type::TEXT),
                    (&resource.map(|(_, id)| id), Type::UUID),
                ],
            )
            .await?;
        match column(&row, "outcome")? {
            "already_completed" => Ok(CompleteOutcome::AlreadyCompleted),
            "completed" => Ok(CompleteOutcome::Completed),
            "fenced" => Ok(CompleteOutcome::Fenced),
            other => Err(corrupt(format!("unknown outcome of a completion: {other:?}"))),
        }
    }
}

impl Store for PostgresStore {
    async fn claim(&self, claim: &Claim) -> Result<ClaimOutcome, StoreError> {
        let row = self
            .connections
            .query_one(
                include_str!("sql/claim.sql"),
                &[
                    (claim.reservation.user.as_uuid(), Type::UUID),
                    (claim.reservation.key.as_uuid(), Type::UUID),
                    (&claim.reservation.token, Type::UUID),
                    (&claim.procedure, Type::TEXT),
                    (&claim.request_hash.as_bytes().as_slice(), Type::BYTEA),
                    (&claim.lease.as_secs_f64(), Type::FLOAT8),
                    (&claim.retention.as_secs_f64(), Type::FLOAT8),
                    (&on_lease_ended(claim), Type::TEXT),
                    (&claim.resource_type, Type::TEXT),
                    (&(claim.effect == EffectPolicy::SameServer), Type::BOOL),
                ],
            )
            .await?;
        claim_outcome(claim, &row)
    }

    async fn extend(&self, reservation: &Reservation, lease: Duration) -> Result<ExtendOutcome, StoreError> {
        let row = self
            .connections
            .query_one(
                include_str!("sql/extend.sql"),
                &[
                    (reservation.user.as_uuid(), Type::UUID),
                    (reservation.key.as_uuid(), Type::UUID),
                    (&reservation.token, Type::UUID),
                    (&lease.as_secs_f64(), Type::FLOAT8),
                ],
            )
            .await?;
        match column(&row, "extended")? {
            true => Ok(ExtendOutcome::Extended),
            false => Ok(ExtendOutcome::NotHeld),
        }
    }

    async fn complete(
        &self,
        reservation: &Reservation,
        completion: &Completion,
    ) -> Result<CompleteOutcome, StoreError> {
        let resource = resource_column(&self.resource_types, completion);
        match self.complete_with(reservation, completion, resource).await {
            // The response is more important than the reference to the resource.
            Err(error) if resource.is_some() && refers_to_nothing(&error) => {
                tracing::warn!(
                    error = %Chain(&error),
                    "the created resource cannot be referenced; the response is stored without it"
                );
                self.complete_with(reservation, completion, None).await
            }
            outcome => outcome,
        }
    }

    async fn release(&self, reservation: &Reservation) -> Result<ReleaseOutcome, StoreError> {
        let row = self
            .connections
            .query_one(
                include_str!("sql/release.sql"),
                &[
                    (reservation.user.as_uuid(), Type::UUID),
                    (reservation.key.as_uuid(), Type::UUID),
                    (&reservation.token, Type::UUID),
                ],
            )
            .await?;
        match column(&row, "released")? {
            true => Ok(ReleaseOutcome::Released),
            false => Ok(ReleaseOutcome::NotHeld),
        }
    }

    async fn abandon(&self, reservation: &Reservation) -> Result<AbandonOutcome, StoreError> {
        let row = self
            .connections
            .query_one(
                include_str!("sql/abandon.sql"),
                &[
                    (reservation.user.as_uuid(), Type::UUID),
                    (reservation.key.as_uuid(), Type::UUID),
                    (&reservation.token, Type::UUID),
                ],
            )
            .await?;
        match column(&row, "abandoned")? {
            true => Ok(AbandonOutcome::Abandoned),
            false => Ok(AbandonOutcome::NotHeld),
        }
    }

    async fn abandoned(&self, search: &AbandonedQuery) -> Result<Vec<AbandonedKey>, StoreError> {
        let rows = self
            .connections
            .query(
                include_str!("sql/abandoned.sql"),
                &[
                    (&search.procedures, Type::TEXT_ARRAY),
                    (&search.lookback.map(|lookback| lookback.as_secs_f64()), Type::FLOAT8),
                    (&i32::try_from(search.max_attempts).unwrap_or(i32::MAX), Type::INT4),
                    (&i32::try_from(search.batch).unwrap_or(i32::MAX), Type::INT4),
                ],
            )
            .await?;
        rows.iter().map(abandoned_key).collect()
    }

    async fn sweep(&self, batch: u32) -> Result<u64, StoreError> {
        let batch = i32::try_from(batch).unwrap_or(i32::MAX);
        let row = self.connections.query_one(include_str!("sql/sweep.sql"), &[(&batch, Type::INT4)]).await?;
        let deleted: i64 = column(&row, "deleted")?;
        u64::try_from(deleted).map_err(corrupt)
    }

    async fn status(&self, user: UserId, resource: &Resource) -> Result<Option<OutboxStatus>, StoreError> {
        let row = self
            .connections
            .query_one(
                include_str!("sql/status.sql"),
                &[(user.as_uuid(), Type::UUID), (&resource.resource_type, Type::TEXT), (&resource.id, Type::UUID)],
            )
            .await?;
        match column(&row, "status")? {
            Some(status) => parse_status(status).map(Some).map_err(corrupt),
            None => Ok(None),
        }
    }

    fn resource_types(&self) -> Option<&ResourceTypes> {
        Some(&self.resource_types)
    }

    fn has_transactions(&self) -> bool {
        true
    }

    async fn begin(&self, claim: &Claim, options: TransactionOptions) -> Result<BeginOutcome, StoreError> {
        Open::begin(&self.connections, &self.resource_types, claim, options).await
    }

    async fn begin_without_key(
        &self,
        user: Option<UserId>,
        idle: Duration,
        options: TransactionOptions,
    ) -> Result<Box<dyn StoreTransaction>, StoreError> {
        Open::begin_without_key(&self.connections, user, idle, options).await
    }
}

/// Returns whether a completion failed only because of its reference: the resource does not exist, or its type is not
/// registered in the database.
fn refers_to_nothing(error: &StoreError) -> bool {
    let code = connection::sql_state(error);
    code == Some(&SqlState::FOREIGN_KEY_VIOLATION) || code == Some(&SqlState::UNDEFINED_COLUMN)
}
