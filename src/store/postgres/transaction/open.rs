//! The transaction of a call from BEGIN to COMMIT, as the engine sees it.

use std::{
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use deadpool_postgres::ClientWrapper;
use futures_util::future::{join, join3};
use tokio::time::{Instant, timeout_at};
use tokio_postgres::{Error, Row, error::SqlState, types::Type};

use super::{Transaction, in_transaction::InTransaction, lookup::look_up, session::Session};
use crate::{
    caller::OwnerId,
    policy::Isolation,
    store::{
        BeginOutcome, CallSession, Claim, ClaimOutcome, CommitOutcome, Completion, ResourceTypes, StoreError,
        StoreErrorKind, StoreTransaction, StoredResponse, TransactionOptions,
        postgres::{
            asked::{Asked, Failure, Reset},
            claim::{Begin, look},
            columns::{
                Columns, arrival_hash, on_foreign_reservation, on_lease_ended, request_hash, resource_column, settings,
            },
            connection::Connections,
            fault::Fault,
            operation::{Attempt, Operation},
            permits::Permits,
            row::claim_outcome,
            statement::{Parameters, Statements},
        },
    },
    telemetry::Chain,
};

/// The savepoint before the handler's first statement. The engine rolls back to it before it records a final error.
const SAVEPOINT: &str = "SAVEPOINT idempotency_handler";
const ROLL_BACK_HANDLER: &str = "ROLLBACK TO SAVEPOINT idempotency_handler";

/// How long a call waits for a permit, at most a quarter of the timeout, before it looks whether it needs one: a retry
/// does not.
const PATIENCE: Duration = Duration::from_millis(250);

/// The SQLSTATE of `tenant.idempotency_commit` if another call with the key is recorded.
const SUPERSEDED: &str = "TI001";

/// The SQLSTATEs of a transaction in which a statement has failed before: that of any statement, and that of a rollback
/// to a savepoint that therefore was not set.
const FAILED: [&str; 2] = ["25P02", "3B001"];

/// The connections of transactions.
#[derive(Clone, Debug)]
pub(in crate::store::postgres) struct Transactions {
    /// Where they are begun.
    pub(in crate::store::postgres) connections: Connections,
    /// Where their outcomes are looked up, and keys whose users have no transaction left.
    pub(in crate::store::postgres) look_ups: Connections,
    pub(in crate::store::postgres) permits: Permits,
}

/// An open transaction.
#[derive(Debug)]
pub(in crate::store::postgres) struct Open {
    session: Arc<Session>,
    transactions: Transactions,
    claimed: Option<Claimed>,
}

impl Open {
    /// Begins a transaction and claims the key. Replaces a lost connection: nothing was done on it.
    pub(in crate::store::postgres) async fn begin(
        transactions: &Transactions,
        resource_types: &Arc<ResourceTypes>,
        claim: &Claim,
        options: TransactionOptions,
    ) -> Result<BeginOutcome, StoreError> {
        let deadline = transactions.look_ups.deadline();
        let mut permit = pin!(transactions.permits.acquire(Some(claim.reservation.owner), deadline));
        let now = Instant::now();
        let patience = (deadline.saturating_duration_since(now) / 4).min(PATIENCE);
        let permit = match timeout_at(now + patience, &mut permit).await {
            Ok(permit) => permit?,
            Err(_) => match look(&transactions.look_ups, claim, options).await? {
                ClaimOutcome::Acquired | ClaimOutcome::TakenOver => permit.await?,
                refused => return Ok(BeginOutcome::Refused(refused)),
            },
        };
        let operation =
            &Operation::new(&transactions.connections).leaving_nothing().with_status(claim.resource_type.is_some());
        let sql = &transactions.connections.sql().begin;
        let begin = |attempt: Attempt| async move {
            let first = Begin::new(claim, options, attempt);
            let (asked, row) = start(operation, attempt, options, sql, &first.parameters()).await?;
            Ok((asked, row, attempt))
        };
        let (asked, row, attempt) = operation.run(begin, |(_, row, _)| !may_be_held_by_another_attempt(row)).await?;
        let connection = InTransaction::new(asked.into_connection(), &transactions.connections, permit);
        let taken_over = match claim_outcome(claim, &row, attempt.with_status) {
            Ok(ClaimOutcome::Acquired) => false,
            Ok(ClaimOutcome::TakenOver) => true,
            refused => {
                drop(connection);
                return refused.map(BeginOutcome::Refused);
            }
        };
        let claimed = Claimed { claim: claim.clone(), resource_types: Arc::clone(resource_types) };
        let session = Arc::new(Session::new(connection));
        let open = Self { session, transactions: transactions.clone(), claimed: Some(claimed) };
        Ok(BeginOutcome::Open { transaction: Box::new(open), taken_over })
    }

    /// Begins a transaction for a call without a key.
    pub(in crate::store::postgres) async fn begin_without_key(
        transactions: &Transactions,
        owner: Option<OwnerId>,
        session: &CallSession,
        options: TransactionOptions,
    ) -> Result<Box<dyn StoreTransaction>, StoreError> {
        let permit = transactions.permits.acquire(owner, transactions.look_ups.deadline()).await?;
        let owner = owner.map(|owner| *owner.as_uuid());
        let idle = options.idle.as_secs_f64();
        let settings = settings(session);
        let parameters: Parameters<'_> =
            &[(&owner, Type::UUID), (&session.user, Type::UUID), (&idle, Type::FLOAT8), (&settings, Type::TEXT_ARRAY)];
        let operation = &Operation::new(&transactions.connections).leaving_nothing();
        let first = &transactions.connections.sql().begin_without_key;
        let begin = |attempt| start(operation, attempt, options, first, parameters);
        let (asked, _) = operation.run(begin, |_| true).await?;
        let connection = InTransaction::new(asked.into_connection(), &transactions.connections, permit);
        let session = Arc::new(Session::new(connection));
        Ok(Box::new(Self { session, transactions: transactions.clone(), claimed: None }))
    }

    async fn committed(self, completion: Option<Completion>) -> Result<CommitOutcome, StoreError> {
        let deadline = self.transactions.connections.deadline();
        let Some(connection) = self.session.end(deadline).await else {
            return Err(StoreError::new(StoreErrorKind::Unreachable, "a statement of the handler is still running"));
        };
        // The answer of a helper's statement may have come since the engine asked.
        if self.session.is_in_conflict() {
            return Err(StoreError::new(StoreErrorKind::Conflict, "a statement of the handler has lost"));
        }
        let sent = self.send_commit(&connection, completion.as_ref());
        let lost = match timeout_at(deadline, sent).await {
            Ok(Ok(())) => {
                connection.give_back();
                return Ok(CommitOutcome::Committed);
            }
            Ok(Err(error)) if !Fault::of(&error).is_lost() => {
                self.transactions.connections.forget_if_stale(&error);
                // The server has rolled back, or does so when this is dropped.
                drop(connection);
                return match error.code().map(SqlState::code) {
                    Some(SUPERSEDED) => Ok(CommitOutcome::Superseded),
                    Some(code) if FAILED.contains(&code) && self.session.has_unanswered() => {
                        Err(StoreError::new(StoreErrorKind::Conflict, error))
                    }
                    _ => Err(StoreError::new(Fault::of(&error).kind(), error)),
                };
            }
            Ok(Err(error)) => Chain(&error).to_string(),
            Err(elapsed) => elapsed.to_string(),
        };
        connection.close();
        match &self.claimed {
            Some(claimed) => {
                let look_ups = &self.transactions.look_ups;
                look_up(look_ups, &claimed.claim.reservation, look_ups.deadline(), lost).await
            }
            None => Err(StoreError::new(StoreErrorKind::Interrupted, lost)),
        }
    }

    /// Rolls back what the handler has dropped, writes the record if there is one, and commits.
    async fn send_commit(&self, connection: &InTransaction, completion: Option<&Completion>) -> Result<(), Error> {
        let is_error = matches!(completion, Some(Completion { response: StoredResponse::Error(_), .. }));
        if is_error && self.session.has_unanswered() {
            // The rollback to the savepoint would hide that a statement has failed.
            connection.batch_execute("SELECT 1").await?;
        }
        let roll_back =
            if is_error { Some(ROLL_BACK_HANDLER.to_owned()) } else { self.session.levels().roll_back_due() };
        // First, even before the statement of the record is prepared: after a failed statement of the handler, nothing
        // can be prepared.
        let rolled_back = async {
            match &roll_back {
                Some(roll_back) => connection.batch_execute(roll_back).await,
                None => Ok(()),
            }
        };
        let committed = async {
            match (&self.claimed, completion) {
                (Some(claimed), Some(completion)) => {
                    claimed.commit(connection, &self.transactions.connections, completion).await
                }
                _ => commit_alone(connection).await,
            }
        };
        let (rolled_back, committed) = join(rolled_back, committed).await;
        rolled_back.and(committed)
    }
}

impl StoreTransaction for Open {
    fn hand_out(&self, extensions: &mut http::Extensions) {
        extensions.insert(Transaction::new(Arc::clone(&self.session)));
    }

    fn was_used(&self) -> bool {
        self.session.was_used()
    }

    fn is_in_conflict(&self) -> bool {
        self.session.is_in_conflict()
    }

    fn commit(
        self: Box<Self>,
        completion: Option<Completion>,
    ) -> Pin<Box<dyn Future<Output = Result<CommitOutcome, StoreError>> + Send>> {
        Box::pin(self.committed(completion))
    }

    fn roll_back(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move { Arc::clone(&self.session).roll_back(self.transactions.connections.deadline()).await })
    }
}

impl Drop for Open {
    /// The handles may live on, in tasks that the handler has spawned.
    fn drop(&mut self) {
        self.session.abort(self.transactions.connections.deadline());
    }
}

/// The claim that the transaction holds, and the resource types for its record.
#[derive(Debug)]
struct Claimed {
    claim: Claim,
    resource_types: Arc<ResourceTypes>,
}

impl Claimed {
    /// Writes the record and commits, in one round trip. An error of the record comes first: after it, COMMIT rolls
    /// back, but succeeds.
    async fn commit(
        &self,
        connection: &InTransaction,
        connections: &Connections,
        completion: &Completion,
    ) -> Result<(), Error> {
        let Claim { reservation, procedure, request, lease, .. } = &self.claim;
        let outcome = Columns::of(&completion.response);
        let resource = resource_column(&self.resource_types, completion);
        let (column, id) = resource.unzip();
        let (lease, retention) = (lease.as_secs_f64(), completion.retention.as_secs_f64());
        let parameters: Parameters<'_> = &[
            (reservation.owner.as_uuid(), Type::UUID),
            (reservation.key.as_uuid(), Type::UUID),
            (&reservation.token, Type::UUID),
            (procedure, Type::TEXT),
            (&request_hash(request), Type::BYTEA),
            (&arrival_hash(request), Type::BYTEA),
            (&lease, Type::FLOAT8),
            (&on_lease_ended(&self.claim), Type::TEXT),
            (&on_foreign_reservation(&self.claim), Type::TEXT),
            (&outcome.response, Type::BYTEA),
            (&outcome.not_stored, Type::BOOL),
            (&outcome.error, Type::BYTEA),
            (&outcome.metadata, Type::BYTEA),
            (&retention, Type::FLOAT8),
            (&column, Type::TEXT),
            (&id, Type::TEXT),
        ];
        let record = connections.statements().ready(connection, &connections.sql().commit, parameters).await?;
        let (record, commit) = join(record.query_one(connection), connection.batch_execute("COMMIT")).await;
        record?;
        commit
    }
}

/// Commits without a record. The statement before COMMIT fails if the transaction has failed: COMMIT would roll back,
/// but succeed.
async fn commit_alone(connection: &InTransaction) -> Result<(), Error> {
    let (alive, committed) = join(connection.batch_execute("SELECT 1"), connection.batch_execute("COMMIT")).await;
    alive.and(committed)
}

/// Begins a transaction as an attempt, in one round trip with its first statement. Returns the connection and the row of
/// that statement.
async fn start<'a>(
    operation: &'a Operation<'_>,
    attempt: Attempt,
    options: TransactionOptions,
    first: &str,
    parameters: Parameters<'_>,
) -> Result<(Asked<'a>, Row), Failure> {
    let asked = operation.connect(Reset::RollBack).await?;
    let started = begun(&asked, operation.statements(), options, first, parameters);
    match operation.looking(attempt, &asked, started).await {
        Ok(row) => Ok((asked, row)),
        Err(error) => Err(asked.failed(error)),
    }
}

async fn begun(
    connection: &ClientWrapper,
    statements: Statements,
    options: TransactionOptions,
    first: &str,
    parameters: Parameters<'_>,
) -> Result<Row, Error> {
    let first = statements.ready(connection, first, parameters).await?;
    // NOT DEFERRABLE fails in a transaction that has run a query: one that was left open on the connection.
    let begin = connection.batch_execute(match options.isolation {
        Isolation::ReadCommitted => "BEGIN ISOLATION LEVEL READ COMMITTED NOT DEFERRABLE",
        Isolation::RepeatableRead => "BEGIN ISOLATION LEVEL REPEATABLE READ NOT DEFERRABLE",
        Isolation::Serializable => "BEGIN ISOLATION LEVEL SERIALIZABLE NOT DEFERRABLE",
    });
    let first = first.query_one(connection);
    if !options.savepoint {
        let (begun, row) = join(begin, first).await;
        return begun.and(row);
    }
    let (begun, row, savepoint) = join3(begin, first, connection.batch_execute(SAVEPOINT)).await;
    // After a failure of the first statement, the savepoint fails too, for that reason.
    let row = begun.and(row)?;
    savepoint.map(|()| row)
}

/// Returns whether another attempt of the same call may hold the key's lock: then its answer decides.
fn may_be_held_by_another_attempt(row: &Row) -> bool {
    row.try_get::<_, &str>("state").is_ok_and(|state| state.starts_with("running"))
}
