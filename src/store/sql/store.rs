//! The store on any driver: the operations of [`Store`].

use std::{sync::Arc, time::Duration};

use uuid::Uuid;

use super::{
    answers::sql_state,
    batch::{Lanes, UnrecordedOutcome, WriteRequest},
    calls::{AdmittedCall, RecordAdmission, RecordLimit, SweepCursor, claim, look_up},
    connections::{Connections, ParkedConnections, Permits, Reconnection},
    driver::{Driver, Statement},
    set_up::{Probe, VerifyError, verify},
    statements::{Columns, RowOf, abandoned_key, column, corrupt, parse_status, resource_column, settings},
    transaction::{OpenTransaction, Transactions},
};
use crate::{
    caller::OwnerId,
    status::{OutboxStatus, Resource},
    store::{
        AbandonOutcome, AbandonedKey, AbandonedQuery, BeginOutcome, CallSession, Claim, ClaimOutcome, CompleteOutcome,
        Completion, ExtendOutcome, KeyRecord, LookUp, ReleaseOutcome, Reservation, ResourceTypes, ServerClock, Store,
        StoreError, StoreErrorKind, StoreSettings, StoreTransaction, TransactionCapacity, TransactionOptions,
    },
    telemetry::{Chain, rarely},
};

/// A store that keeps records in PostgreSQL 14 or later, under row-level security, in the table
/// `tenant.idempotency_keys`: see [`migrations`](crate::migrations).
///
/// Each operation is one statement and one network round trip. It sets the owner of the record for that statement only, and leaves
/// neither a transaction nor a setting on the connection. The handler of a transactional procedure gets a
/// `Transaction`, which takes one of the pool's connections until it ends.
///
/// An answer that is lost is not taken for a refusal: the operation is repeated on another connection, and so is one that
/// lost against another transaction, after a pause. A connection that does not answer holds nothing up:
/// [`timeout`](Self::timeout). The [kind](crate::store::StoreErrorKind) of an error tells a server that cannot be asked
/// from one that is slow, and from one that refuses.
///
/// ```no_run
/// use deadpool_postgres::{Manager, Pool, QueueMode};
/// use std::time::Duration;
/// use tonic_idempotency::store::{PostgresStore, PreparedStatements, ResourceType, ResourceTypes};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut config: tokio_postgres::Config = "host=localhost user=my_api dbname=my_app".parse()?;
/// // A server that has gone without a word is noticed.
/// let silence = Duration::from_secs(15);
/// config.connect_timeout(Duration::from_secs(5)).tcp_user_timeout(silence);
/// config.keepalives_idle(silence).keepalives_interval(silence / 3).keepalives_retries(3);
/// let manager = Manager::new(config, tokio_postgres::NoTls);
/// // The connection that was used last: its process has warm caches.
/// let pool = Pool::builder(manager).max_size(16).queue_mode(QueueMode::Lifo).build()?;
///
/// // Default: gives up on an operation after five seconds.
/// let store = PostgresStore::new(pool.clone(), ResourceTypes::none());
/// // Customised.
/// let types = ResourceTypes::new([ResourceType::new("invoice", "invoice_id", "billing.invoices")]);
/// let patient = PostgresStore::new(pool, types)
///     .prepared_statements(PreparedStatements::Never)
///     .timeout(Duration::from_secs(10));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SqlStore<D: Driver> {
    pub(super) connections: Connections<D>,
    pub(super) lanes: Lanes<D>,
    limits: RecordLimit,
    pub(super) permits: Permits,
    reached: SweepCursor,
    resource_types: Arc<ResourceTypes>,
    /// `None`: transactions use the same pool.
    pub(super) transaction_pool: Option<TransactionPool<D>>,
}

/// A pool only of transactions, the connections of it that are parked, and the turns of callers that need one.
#[derive(Clone, Debug)]
pub(super) struct TransactionPool<D> {
    pub(super) driver: D,
    parked: Arc<ParkedConnections>,
    reconnection: Arc<Reconnection>,
}

impl<D> TransactionPool<D> {
    pub(super) fn new(driver: D) -> Self {
        Self { driver, parked: Arc::default(), reconnection: Arc::default() }
    }
}

impl<D: Driver> SqlStore<D> {
    /// Makes a store from a pool of connections and the resource types that are registered in the database. The
    /// connections have to log in as the API's own role: row-level security does not apply to superusers.
    ///
    /// Set `connect_timeout`, `tcp_user_timeout` and keepalives in the pool's configuration, as in the example above: the
    /// defaults of TCP find out only after hours that the other side of an idle connection has gone. Reserved handlers
    /// should have a pool of their own: the store cannot keep them from taking its connections.
    pub fn new(pool: impl Into<D>, resource_types: ResourceTypes) -> Self {
        let driver = pool.into();
        let permits = Permits::beside_claims(&driver);
        let resource_types = Arc::new(resource_types);
        let connections = Connections::new(driver, Arc::clone(&resource_types));
        Self {
            lanes: Lanes::new(&connections),
            connections,
            limits: RecordLimit::default(),
            permits,
            reached: SweepCursor::default(),
            resource_types,
            transaction_pool: None,
        }
    }

    /// Checks that the database is set up for this store: the role of the pool and its settings, row-level security, the migrations and
    /// what they have made, the owners, the grants and the resource types. Then tries each statement of a call, the sweep and the recovery, on
    /// rows of an owner of its own, which it removes. Call it once at start, before the first call: otherwise each of these shows only when
    /// calls fail, or not at all.
    ///
    /// ```no_run
    /// # async fn start(store: tonic_idempotency::store::PostgresStore) -> Result<(), Box<dyn std::error::Error>> {
    /// store.verify().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`VerifyError`] with everything that is wrong, or if the database cannot be asked.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, a few rows of its own may stay, which expire within a minute.
    pub async fn verify(&self) -> Result<(), VerifyError> {
        self.verify_by_reading().await?;
        let probe = Probe {
            store: self,
            connections: &self.connections,
            lanes: &self.lanes,
            transactions: self.transactions(),
            resource_types: &self.resource_types,
            problems: Vec::new(),
        };
        VerifyError::of(probe.run().await?)
    }

    /// The half of [`verify`](Self::verify) that changes nothing, and tries nothing. Only for `tonic-idempotency doctor`.
    #[doc(hidden)]
    pub async fn verify_by_reading(&self) -> Result<(), VerifyError> {
        verify(&self.connections, &self.resource_types, self.limits.are_on()).await
    }

    /// Admits a call. If its user is at a limit, an existing record decides instead; without one, the call is refused. A takeover adds no
    /// record, so it is admitted.
    async fn admit(&self, claim: &Claim) -> Result<ClaimAdmission, StoreError> {
        match self.limits.admit(&self.connections, claim.reservation.owner).await? {
            RecordAdmission::Admitted(admitted) => Ok(ClaimAdmission::Admitted(admitted)),
            RecordAdmission::Full => {
                match claim::look(&self.connections, claim, TransactionOptions::default()).await? {
                    ClaimOutcome::Acquired => Err(StoreErrorKind::UserFull.into()),
                    ClaimOutcome::TakenOver => Ok(ClaimAdmission::Admitted(AdmittedCall::without_record())),
                    decided => Ok(ClaimAdmission::Decided(decided)),
                }
            }
        }
    }

    fn transactions(&self) -> Transactions<D> {
        let connections = match &self.transaction_pool {
            Some(TransactionPool { driver, parked, reconnection }) => {
                self.connections.of(driver.clone(), Arc::clone(parked), Arc::clone(reconnection))
            }
            None => self.connections.clone(),
        };
        Transactions {
            connections,
            look_ups: self.connections.clone(),
            // Transactions leave one connection of several to the rest.
            can_look_beside: self.transaction_pool.is_some() || self.connections.are_several(),
            lanes: self.lanes.clone(),
            permits: self.permits.clone(),
        }
    }

    /// Completes the record, without the resource if the database refuses the reference: the response is more important.
    async fn complete_without_reference_if_need_be(
        &self,
        reservation: &Reservation,
        completion: &Completion,
    ) -> Result<CompleteOutcome, StoreError> {
        match self.complete_with(reservation, completion).await {
            Err(error) if completion.resource.is_some() && refers_to_nothing(&error) => {
                if let Some(calls) = rarely("resource_not_referenced", "") {
                    tracing::warn!(
                        error = %Chain(&error),
                        calls,
                        "created resources cannot be referenced; the responses are stored without them"
                    );
                }
                self.complete_with(reservation, &Completion { resource: None, ..completion.clone() }).await
            }
            outcome => outcome,
        }
    }

    async fn complete_with(
        &self,
        reservation: &Reservation,
        completion: &Completion,
    ) -> Result<CompleteOutcome, StoreError> {
        let outcome = Columns::of(&completion.response);
        let resource = resource_column(&self.resource_types, completion);
        let parameters = &[
            (*reservation.owner.as_uuid()).into(),
            (*reservation.key.as_uuid()).into(),
            reservation.token.into(),
            outcome.response.into(),
            outcome.not_stored.into(),
            outcome.error.into(),
            outcome.metadata.into(),
            completion.retention.as_secs_f64().into(),
            resource.as_ref().map(|(column, _)| *column).into(),
            resource.as_ref().map(|(_, id)| &**id).into(),
        ];
        let statement = Statement { sql: &self.connections.sql().complete, parameters };
        let recording = || UnrecordedOutcome::new(&self.resource_types, *reservation, completion.clone());
        let recording = || WriteRequest::Outcome(Box::new(recording()));
        let read = |row: &RowOf<D>| match column::<&str>(row, "outcome")? {
            "already_completed" => Ok(CompleteOutcome::AlreadyCompleted),
            "completed" => Ok(CompleteOutcome::Completed),
            "fenced" => Ok(CompleteOutcome::Fenced),
            other => Err(corrupt(format!("unknown outcome of a completion: {other:?}"))),
        };
        let done = CompleteOutcome::Completed;
        self.connections.query_together(&self.lanes.write, recording, done, statement, read).await
    }

    async fn abandon_row(&self, reservation: &Reservation) -> Result<AbandonOutcome, StoreError> {
        let parameters =
            &[(*reservation.owner.as_uuid()).into(), (*reservation.key.as_uuid()).into(), reservation.token.into()];
        let row = self.connections.query_one(&self.connections.sql().abandon, parameters).await?;
        match column(&row, "abandoned")? {
            true => Ok(AbandonOutcome::Abandoned),
            false => Ok(AbandonOutcome::NotHeld),
        }
    }
}

/// The admission of a claim.
enum ClaimAdmission {
    Admitted(AdmittedCall),
    /// Its user is at a limit, and an existing record has decided.
    Decided(ClaimOutcome),
}

impl<D: Driver> Store for SqlStore<D> {
    async fn claim(&self, claim: &Claim) -> Result<ClaimOutcome, StoreError> {
        let admitted = match self.admit(claim).await? {
            ClaimAdmission::Admitted(admitted) => admitted,
            ClaimAdmission::Decided(outcome) => return Ok(outcome),
        };
        let outcome = claim::claim(&self.connections, &self.lanes, claim).await?;
        if !matches!(outcome, ClaimOutcome::Acquired) {
            admitted.made_none();
        }
        let ends_without_key = !outcome.holds_key() && !matches!(outcome, ClaimOutcome::Replay(_));
        if ends_without_key && self.connections.late_claims().has(claim.reservation.token) {
            // A late attempt would reserve the key once its holder lets go of it.
            self.release(&claim.reservation).await.map_err(StoreError::after_a_lost_answer)?;
        }
        Ok(outcome)
    }

    async fn extend(&self, reservation: &Reservation, lease: Duration) -> Result<ExtendOutcome, StoreError> {
        let parameters = &[
            (*reservation.owner.as_uuid()).into(),
            (*reservation.key.as_uuid()).into(),
            reservation.token.into(),
            lease.as_secs_f64().into(),
        ];
        let row = self.connections.query_one(&self.connections.sql().extend, parameters).await?;
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
        let late_claims = self.connections.late_claims();
        let mut completed = self.complete_without_reference_if_need_be(reservation, completion).await;
        if matches!(completed, Ok(CompleteOutcome::Fenced)) && late_claims.has(reservation.token) {
            // A late attempt may still reserve the key for this call, which has taken effect.
            late_claims.are_over(reservation.token, self.connections.deadline()).await?;
            completed = self.complete_without_reference_if_need_be(reservation, completion).await;
        }
        completed
    }

    async fn release(&self, reservation: &Reservation) -> Result<ReleaseOutcome, StoreError> {
        self.connections.late_claims().are_over(reservation.token, self.connections.deadline()).await?;
        let parameters =
            &[(*reservation.owner.as_uuid()).into(), (*reservation.key.as_uuid()).into(), reservation.token.into()];
        let row = self.connections.query_one(&self.connections.sql().release, parameters).await?;
        match column(&row, "released")? {
            true => Ok(ReleaseOutcome::Released),
            false => Ok(ReleaseOutcome::NotHeld),
        }
    }

    async fn abandon(&self, reservation: &Reservation) -> Result<AbandonOutcome, StoreError> {
        // At once: the call may have taken effect, and until then its lease runs out. A late attempt changes nothing in what is abandoned.
        let late_claims = self.connections.late_claims();
        let mut abandoned = self.abandon_row(reservation).await;
        if matches!(abandoned, Ok(AbandonOutcome::NotHeld)) && late_claims.has(reservation.token) {
            late_claims.are_over(reservation.token, self.connections.deadline()).await?;
            abandoned = self.abandon_row(reservation).await;
        }
        abandoned
    }

    /// Reads page by page: the pages include outcomes, of which there may be millions.
    async fn abandoned(&self, search: &AbandonedQuery) -> Result<Vec<AbandonedKey>, StoreError> {
        let most = usize::try_from(search.batch).unwrap_or(usize::MAX);
        let (mut found, mut reached) = (Vec::new(), None::<Uuid>);
        loop {
            let rows = self
                .connections
                .read(
                    &self.connections.sql().abandoned,
                    &[
                        search.procedures.as_slice().into(),
                        search.lookback.map(|lookback| lookback.as_secs_f64()).into(),
                        i32::try_from(search.max_attempts).unwrap_or(i32::MAX).into(),
                        i32::try_from(most - found.len()).unwrap_or(i32::MAX).into(),
                        reached.into(),
                        self.connections.share().as_secs_f64().into(),
                    ],
                )
                .await?;
            reached = None;
            for row in &rows {
                match column(row, "reached")? {
                    None => found.push(abandoned_key(row)?),
                    next => reached = next,
                }
            }
            if reached.is_none() || found.len() >= most {
                return Ok(found);
            }
        }
    }

    async fn sweep(&self, batch: u32) -> Result<u64, StoreError> {
        let batch = i32::try_from(batch).unwrap_or(i32::MAX);
        let reached = self.reached.take();
        let parameters = [batch.into(), reached.as_deref().into()];
        let row = self.connections.query_one_long(&self.connections.sql().sweep, &parameters).await?;
        self.reached.set(column::<Option<&str>>(&row, "reached")?.map(str::to_owned));
        let deleted: i64 = column(&row, "deleted")?;
        u64::try_from(deleted).map_err(corrupt)
    }

    async fn status(&self, session: &CallSession, resource: &Resource) -> Result<Option<OutboxStatus>, StoreError> {
        let row = self
            .connections
            .query_one(
                &self.connections.sql().status,
                &[
                    session.user.into(),
                    resource.resource_type.as_str().into(),
                    (&*resource.id.to_text()).into(),
                    settings(session).into(),
                ],
            )
            .await?;
        match column::<Option<&str>>(&row, "status")? {
            Some(status) => parse_status(status).map(Some).map_err(corrupt),
            None => Ok(None),
        }
    }

    async fn look_up(&self, question: &LookUp) -> Result<KeyRecord, StoreError> {
        look_up::look_up(&self.connections, &self.resource_types, question).await
    }

    fn limits_records(&self) -> bool {
        true
    }

    fn set_up(&self, settings: &StoreSettings) {
        self.limits.set_records(settings.limits.records);
        self.permits.limit(settings.limits.transactions);
    }

    fn transaction_capacity(&self) -> Option<TransactionCapacity> {
        Some(self.permits.capacity())
    }

    fn resource_types(&self) -> Option<&ResourceTypes> {
        Some(&self.resource_types)
    }

    fn server_clock(&self) -> Option<&ServerClock> {
        Some(self.connections.clock())
    }

    fn has_transactions(&self) -> bool {
        true
    }

    async fn begin(&self, claim: &Claim, options: TransactionOptions) -> Result<BeginOutcome, StoreError> {
        match self.admit(claim).await? {
            ClaimAdmission::Admitted(mut admitted) => {
                self.limits.keep(&self.connections, claim.reservation.owner, &mut admitted);
                OpenTransaction::<D>::begin(&self.transactions(), &self.resource_types, claim, options, admitted).await
            }
            ClaimAdmission::Decided(outcome) => Ok(BeginOutcome::Refused(outcome)),
        }
    }

    async fn begin_without_key(
        &self,
        owner: Option<OwnerId>,
        session: &CallSession,
        options: TransactionOptions,
    ) -> Result<Box<dyn StoreTransaction>, StoreError> {
        OpenTransaction::<D>::begin_without_key(&self.transactions(), owner, session, options).await
    }
}

const FOREIGN_KEY_VIOLATION: &str = "23503";
const INVALID_TEXT_REPRESENTATION: &str = "22P02";
const NUMERIC_VALUE_OUT_OF_RANGE: &str = "22003";
const UNDEFINED_COLUMN: &str = "42703";

/// Returns whether a completion failed only because of its reference: the resource does not exist, its type is not
/// registered in the database, or ids are of another kind there.
fn refers_to_nothing(error: &StoreError) -> bool {
    matches!(
        sql_state(error),
        Some(FOREIGN_KEY_VIOLATION | INVALID_TEXT_REPRESENTATION | NUMERIC_VALUE_OUT_OF_RANGE | UNDEFINED_COLUMN)
    )
}

#[cfg(test)]
mod tests {
    use super::{
        super::{batch::fake::Fake, handles::Exclusive},
        *,
    };

    impl Driver for Fake {
        type Session = Exclusive<Self>;
    }

    /// Else each would ask only about its own COMMIT, on a connection of its own, and could not tell it from another's.
    #[test]
    fn all_transactions_of_a_pool_know_what_is_parked_of_it() {
        let shared = SqlStore::<Fake>::new(Fake::new(), ResourceTypes::none());
        let apart = shared.clone().transaction_pool(Fake::new());
        for (store, is_shared) in [(&shared, true), (&apart, false)] {
            let [one, other] =
                [store, &store.clone()].map(|store| Arc::clone(store.transactions().connections.parked()));
            assert!(Arc::ptr_eq(&one, &other));
            assert_eq!(Arc::ptr_eq(&one, store.connections.parked()), is_shared);
        }
    }
}
