//! The transaction of a call from BEGIN to COMMIT, as the engine sees it.

use std::{pin::Pin, sync::Arc, time::Duration};

use futures_util::future::{join, join3};
use tokio::time::timeout_at;
use tokio_postgres::{Error, Row, error::SqlState, types::Type};

use super::{Transaction, in_transaction::InTransaction, lookup::look_up, session::Session};
use crate::{
    policy::Isolation,
    store::{
        BeginOutcome, Claim, ClaimOutcome, CommitOutcome, Completion, ResourceTypes, StoreError, StoreErrorKind,
        StoreTransaction, StoredResponse, TransactionOptions,
        postgres::{
            columns::{Columns, on_lease_ended, resource_column},
            connection::{ATTEMPTS, Connections, connection_lost, kind},
            row::claim_outcome,
            statement::{Parameters, Statements},
        },
    },
    telemetry::Chain,
    user::UserId,
};

/// The savepoint before the handler's first statement. The engine rolls back to it before it records a final error.
const SAVEPOINT: &str = "SAVEPOINT idempotency_handler";
const ROLL_BACK_HANDLER: &str = "ROLLBACK TO SAVEPOINT idempotency_handler";

/// The SQLSTATE of `tenant.idempotency_commit` if another call with the key is recorded.
const SUPERSEDED: &str = "TI001";

/// The SQLSTATEs of a transaction in which a statement has failed before: that of any statement, and that of a rollback
/// to a savepoint that therefore was not set.
const FAILED: [&str; 2] = ["25P02", "3B001"];

/// An open transaction.
#[derive(Debug)]
pub(in crate::store::postgres) struct Open {
    session: Arc<Session>,
    connections: Connections,
    claimed: Option<Claimed>,
}

impl Open {
    /// Begins a transaction and claims the key. Replaces a lost connection: nothing was done on it.
    pub(in crate::store::postgres) async fn begin(
        connections: &Connections,
        resource_types: &Arc<ResourceTypes>,
        claim: &Claim,
        options: TransactionOptions,
    ) -> Result<BeginOutcome, StoreError> {
        let (connection, row) = started(
            connections,
            options,
            include_str!("../sql/begin.sql"),
            &[
                (claim.reservation.user.as_uuid(), Type::UUID),
                (claim.reservation.key.as_uuid(), Type::UUID),
                (&claim.reservation.token, Type::UUID),
                (&claim.procedure, Type::TEXT),
                (&claim.request_hash.as_bytes().as_slice(), Type::BYTEA),
                (&claim.lease.as_secs_f64(), Type::FLOAT8),
                (&on_lease_ended(claim), Type::TEXT),
                (&claim.resource_type, Type::TEXT),
            ],
        )
        .await?;
        let taken_over = match claim_outcome(claim, &row) {
            Ok(ClaimOutcome::Acquired) => false,
            Ok(ClaimOutcome::TakenOver) => true,
            refused => {
                drop(connection);
                return refused.map(BeginOutcome::Refused);
            }
        };
        let claimed = Claimed { claim: claim.clone(), resource_types: Arc::clone(resource_types) };
        let session = Arc::new(Session::new(connection));
        let open = Self { session, connections: connections.clone(), claimed: Some(claimed) };
        Ok(BeginOutcome::Open { transaction: Box::new(open), taken_over })
    }

    /// Begins a transaction for a call without a key.
    pub(in crate::store::postgres) async fn begin_without_key(
        connections: &Connections,
        user: Option<UserId>,
        idle: Duration,
        options: TransactionOptions,
    ) -> Result<Box<dyn StoreTransaction>, StoreError> {
        let user = user.map(|user| *user.as_uuid());
        let (connection, _) = started(
            connections,
            options,
            include_str!("../sql/begin_without_key.sql"),
            &[(&user, Type::UUID), (&idle.as_secs_f64(), Type::FLOAT8)],
        )
        .await?;
        let session = Arc::new(Session::new(connection));
        Ok(Box::new(Self { session, connections: connections.clone(), claimed: None }))
    }

    async fn committed(self, completion: Option<Completion>) -> Result<CommitOutcome, StoreError> {
        let deadline = self.connections.deadline();
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
            Ok(Err(error)) if !connection_lost(&error) => {
                self.connections.forget_if_stale(&error);
                // The server has rolled back, or does so when this is dropped.
                drop(connection);
                return match error.code().map(SqlState::code) {
                    Some(SUPERSEDED) => Ok(CommitOutcome::Superseded),
                    Some(code) if FAILED.contains(&code) && self.session.has_unanswered() => {
                        Err(StoreError::new(StoreErrorKind::Conflict, error))
                    }
                    _ => Err(StoreError::new(kind(&error), error)),
                };
            }
            Ok(Err(error)) => Chain(&error).to_string(),
            Err(elapsed) => elapsed.to_string(),
        };
        connection.close();
        match &self.claimed {
            Some(claimed) => {
                look_up(&self.connections, &claimed.claim.reservation, self.connections.deadline(), lost).await
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
                    claimed.commit(connection, self.connections.statements(), completion).await
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
        Box::pin(async move { Arc::clone(&self.session).roll_back(self.connections.deadline()).await })
    }
}

impl Drop for Open {
    /// The handles may live on, in tasks that the handler has spawned.
    fn drop(&mut self) {
        self.session.abort(self.connections.deadline());
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
        statements: Statements,
        completion: &Completion,
    ) -> Result<(), Error> {
        let Claim { reservation, procedure, request_hash, lease, .. } = &self.claim;
        let outcome = Columns::of(&completion.response);
        let resource = resource_column(&self.resource_types, completion);
        let (column, id) = resource.unzip();
        let (request_hash, lease, retention) =
            (request_hash.as_bytes().as_slice(), lease.as_secs_f64(), completion.retention.as_secs_f64());
        let parameters: Parameters<'_> = &[
            (reservation.user.as_uuid(), Type::UUID),
            (reservation.key.as_uuid(), Type::UUID),
            (&reservation.token, Type::UUID),
            (procedure, Type::TEXT),
            (&request_hash, Type::BYTEA),
            (&lease, Type::FLOAT8),
            (&on_lease_ended(&self.claim), Type::TEXT),
            (&outcome.response, Type::BYTEA),
            (&outcome.not_stored, Type::BOOL),
            (&outcome.error, Type::BYTEA),
            (&outcome.metadata, Type::BYTEA),
            (&retention, Type::FLOAT8),
            (&column, Type::TEXT),
            (&id, Type::UUID),
        ];
        let record = statements.ready(connection, include_str!("../sql/commit.sql"), parameters).await?;
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

/// Begins a transaction on a connection from the pool, in one round trip with its first statement. Returns the
/// connection and the row of that statement.
async fn started(
    connections: &Connections,
    options: TransactionOptions,
    first: &str,
    parameters: Parameters<'_>,
) -> Result<(InTransaction, Row), StoreError> {
    let deadline = connections.deadline();
    let mut attempt = 1;
    loop {
        let connection = InTransaction::new(connections.connection(deadline).await?, connections);
        let started = start(&connection, connections.statements(), options, first, parameters);
        let error = match timeout_at(deadline, started).await {
            Ok(Ok(row)) => return Ok((connection, row)),
            Ok(Err(error)) => error,
            Err(elapsed) => {
                connection.close();
                return Err(StoreError::new(StoreErrorKind::Unreachable, elapsed));
            }
        };
        if attempt == ATTEMPTS || !connections.worth_another_attempt(&error) {
            let kind = if connection_lost(&error) { StoreErrorKind::Unreachable } else { kind(&error) };
            return Err(StoreError::new(kind, error));
        }
        attempt += 1;
    }
}

async fn start(
    connection: &InTransaction,
    statements: Statements,
    options: TransactionOptions,
    first: &str,
    parameters: Parameters<'_>,
) -> Result<Row, Error> {
    let first = statements.ready(connection, first, parameters).await?;
    let begin = connection.batch_execute(match options.isolation {
        Isolation::ReadCommitted => "BEGIN ISOLATION LEVEL READ COMMITTED",
        Isolation::RepeatableRead => "BEGIN ISOLATION LEVEL REPEATABLE READ",
        Isolation::Serializable => "BEGIN ISOLATION LEVEL SERIALIZABLE",
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
