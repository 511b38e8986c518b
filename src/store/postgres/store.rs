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

/// Keeps records in PostgreSQL 14 or later, in `tenant.idempotency_keys` (see [`migrations`](crate::migrations)), under
/// row-level security.
///
/// Each operation is one statement and one network round trip, and leaves neither a transaction nor a setting on the
/// connection: the user is set for that statement alone. A transactional procedure's handler is given a [`Transaction`] on
/// one of the pool's connections; that one goes back when the transaction has ended, and not before.
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
    /// A store on a pool of connections, which log in as the API's own role, not as a superuser (to whom row-level security
    /// does not apply). The resource types are those that are registered in the database.
    pub fn new(pool: Pool, resource_types: ResourceTypes) -> Self {
        Self { connections: Connections::new(pool, Duration::from_secs(5)), resource_types: Arc::new(resource_types) }
    }

    /// Prepares the store's statements, once for each connection (one more round trip then), in place of having them parsed and
    /// planned each time; `docs/benchmarks.md` has what that saves. Defaults to parsing them, which works everywhere.
    ///
    /// **Not behind a PgBouncer** (or another pooler) in transaction mode, unless it keeps track of prepared statements: PgBouncer
    /// does from 1.21 on, with `max_prepared_statements`. One that does not hands a connection on with what others prepared there,
    /// under names that mean something else to them.
    ///
    /// What goes stale is prepared anew: a function that was replaced, a statement that the server has forgotten. A transactional
    /// handler that says `DEALLOCATE ALL` takes the record's own away, and its call is rolled back.
    pub fn prepared_statements(mut self) -> Self {
        self.connections = self.connections.prepared_statements();
        self
    }

    /// How long an operation may take, the wait for a connection and further attempts included. More than zero, at most
    /// an hour. Defaults to 5 seconds. What takes longer counts as a store that is away: a pool that handlers exhaust, too,
    /// so one of its own is safest. A COMMIT that takes longer is looked up, for as long again. What a transactional handler
    /// does takes as long as it takes.
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
            // The response counts for more than the reference to the resource.
            Err(error) if resource.is_some() && refers_to_nothing(&error) => {
                tracing::warn!(
                    error = %Chain(&error),
                    "the created resource cannot be referenced; the response is kept without it"
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

/// Whether a completion failed for its reference alone: no such resource, or the type is not registered in the database.
fn refers_to_nothing(error: &StoreError) -> bool {
    let code = connection::sql_state(error);
    code == Some(&SqlState::FOREIGN_KEY_VIOLATION) || code == Some(&SqlState::UNDEFINED_COLUMN)
}
