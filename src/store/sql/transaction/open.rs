//! The transaction of a call from BEGIN to COMMIT, as the engine sees it.

use std::{
    error::Error,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use tokio::time::{Instant, timeout_at};

use super::{
    in_transaction::InTransaction,
    lookup::look_up,
    record::{ClaimedKey, Record},
    take::{BegunTransaction, ask, start, take},
};
use crate::{
    caller::OwnerId,
    policy::Isolation,
    store::{
        BeginOutcome, CallSession, Claim, ClaimOutcome, CommitOutcome, Completion, ResourceTypes, RollBackOutcome,
        StoreError, StoreErrorKind, StoreTransaction, StoredResponse, TransactionOptions, TransactionTimes,
        sql::{
            answers::{Fault, QUERY_CANCELED, READ_ONLY_TRANSACTION, UNIQUE_VIOLATION},
            batch::Lanes,
            calls::{
                AdmittedCall,
                claim::{Begin, look, look_for_record, look_for_row},
            },
            connections::{Connections, Permits, Reset},
            driver::{Connection as _, Driver, DriverError, Session, Statement, Value},
            operation::StoreOperation,
            statements::{claim_outcome, settings},
        },
    },
    telemetry::Chain,
};

const ROLL_BACK_HANDLER: &str = "ROLLBACK TO SAVEPOINT idempotency_handler";

/// How long a call waits for a permit, at most a quarter of the timeout, before it looks whether it needs one: a retry
/// does not.
const PATIENCE: Duration = Duration::from_millis(250);

/// A record that takes longer than this is slow. One that is cancelled sooner has met a `statement_timeout` that no record would meet.
const HASTE: Duration = Duration::from_millis(100);

/// The SQLSTATE of `tenant.idempotency_commit` if another call with the key is recorded.
const SUPERSEDED: &str = "TI001";

/// The SQLSTATE of the end of a call without a key, outside of its transaction.
const NO_TRANSACTION: &str = "25P01";
const ENDED_BY_HANDLER: &str =
    "the handler ended the transaction that the layer began for the call; it must not commit or roll back";

/// The SQLSTATEs of a transaction in which a statement has failed before: that of any statement, and that of a rollback
/// to a savepoint that therefore was not set.
const FAILED: [&str; 2] = ["25P02", "3B001"];

/// The connections of transactions, and what limits them.
#[derive(Clone, Debug)]
pub(in crate::store::sql) struct Transactions<D: Driver> {
    /// The connections on which transactions are begun.
    pub(in crate::store::sql) connections: Connections<D>,
    /// The connections on which outcomes are looked up, and keys before a transaction is begun for them.
    pub(in crate::store::sql) look_ups: Connections<D>,
    /// Whether there is a connection for look-ups while all transactions that there may be are open, but for those inside of handlers.
    pub(in crate::store::sql) can_look_beside: bool,
    pub(in crate::store::sql) lanes: Lanes<D>,
    pub(in crate::store::sql) permits: Permits,
}

/// Looks at a key whose lock a serializable transaction holds: outside of it, so that it has read nothing of a key that has no row. No other
/// transaction can record it now. Returns also whether it has no row.
async fn look_beside<D: Driver>(
    connection: &mut InTransaction<D>,
    transactions: &Transactions<D>,
    claim: &Claim,
    options: TransactionOptions,
) -> Result<(ClaimOutcome, bool), StoreError> {
    let Transactions { look_ups, lanes, .. } = transactions;
    let deadline = look_ups.deadline();
    match look_for_row(look_ups, lanes, claim, options).await? {
        (_, false) => return Ok((ClaimOutcome::Acquired, true)),
        (final_one @ (ClaimOutcome::Mismatch(_) | ClaimOutcome::Replay(_)), true) => return Ok((final_one, false)),
        // It may be replaced, and is read in the transaction. The lock, which looks like another call's, is the transaction's own.
        (_, true) => {}
    }
    // It is not late either: its lock is held.
    let any = Begin::new(claim, options, None, f64::INFINITY);
    match timeout_at(deadline, ask(&mut **connection, look_ups.sql(), any, options)).await {
        Ok(Ok(row)) => claim_outcome(claim, &row, false).map(|outcome| (outcome, false)),
        Ok(Err(error)) => Err(StoreError::new(Fault::of(&error).kind(), error)),
        Err(elapsed) => Err(StoreError::new(StoreErrorKind::Unreachable, elapsed)),
    }
}

/// An open transaction.
#[derive(Debug)]
pub(in crate::store::sql) struct OpenTransaction<D: Driver> {
    session: Arc<D::Session>,
    transactions: Transactions<D>,
    claimed: Option<ClaimedKey>,
}

impl<D: Driver> OpenTransaction<D> {
    /// Begins a transaction and claims the key. Replaces a lost connection: nothing was done on it.
    pub(in crate::store::sql) async fn begin(
        transactions: &Transactions<D>,
        resource_types: &Arc<ResourceTypes>,
        claim: &Claim,
        options: TransactionOptions,
        admitted: AdmittedCall,
    ) -> Result<BeginOutcome, StoreError> {
        let Transactions { look_ups, lanes, .. } = transactions;
        if lanes.prediction.expects_record()
            && let Some(found) = look_for_record(look_ups, lanes, claim, options).await?
        {
            admitted.made_none();
            return Ok(BeginOutcome::Refused(found));
        }
        let deadline = look_ups.deadline();
        let mut permit = pin!(transactions.permits.acquire(Some(claim.reservation.owner), options.inside, deadline));
        let now = Instant::now();
        let patience = (deadline.saturating_duration_since(now) / 4).min(PATIENCE);
        let permit = match timeout_at(now + patience, &mut permit).await {
            Ok(permit) => permit?,
            Err(_) => match look(look_ups, claim, options).await? {
                ClaimOutcome::Acquired | ClaimOutcome::TakenOver => permit.await?,
                refused => {
                    admitted.made_none();
                    lanes.prediction.note(true);
                    return Ok(BeginOutcome::Refused(refused));
                }
            },
        };
        let operation = &StoreOperation::new(&transactions.connections)
            .leaving_nothing()
            .with_status(claim.resource_type.is_some());
        // One inside of a handler may have the last connection.
        let looks_beside =
            options.isolation == Isolation::Serializable && transactions.can_look_beside && options.inside == 0;
        // Boxed, since the operation has several places for attempts.
        let begin = |attempt| Box::pin(take(operation, claim, options, attempt, looks_beside));
        let BegunTransaction { asked, found } =
            operation.run(begin, |taken| !taken.may_be_held_by_another_attempt()).await?;
        let mut connection = InTransaction::new(asked.into_connection(), &transactions.connections, permit);
        let (outcome, was_free) = match &found {
            None if looks_beside => match Box::pin(look_beside(&mut connection, transactions, claim, options)).await {
                Ok((outcome, is_free)) => (Ok(outcome), is_free),
                Err(error) => (Err(error), false),
            },
            None => (Ok(ClaimOutcome::Acquired), true),
            Some((row, attempt)) => (claim_outcome(claim, row, attempt.with_status), false),
        };
        outcome.iter().for_each(|outcome| lanes.prediction.note(!outcome.holds_key()));
        let taken_over = match outcome {
            Ok(ClaimOutcome::Acquired) => false,
            Ok(ClaimOutcome::TakenOver) => true,
            refused => {
                admitted.made_none();
                // Until it has ended, its lock looks like that of a call that runs; a final record is returned all the same.
                if !matches!(refused, Ok(ClaimOutcome::Replay(_))) {
                    connection.roll_back(transactions.connections.deadline()).await;
                }
                return refused.map(BeginOutcome::Refused);
            }
        };
        let claimed = ClaimedKey {
            claim: claim.clone(),
            resource_types: Arc::clone(resource_types),
            was_free,
            _admitted: admitted,
        };
        let session = Arc::new(D::Session::new(connection));
        let open = Self { session, transactions: transactions.clone(), claimed: Some(claimed) };
        Ok(BeginOutcome::Open { transaction: Box::new(open), taken_over })
    }

    /// Begins a transaction for a call without a key.
    pub(in crate::store::sql) async fn begin_without_key(
        transactions: &Transactions<D>,
        owner: Option<OwnerId>,
        session: &CallSession,
        options: TransactionOptions,
    ) -> Result<Box<dyn StoreTransaction>, StoreError> {
        let permit = transactions.permits.acquire(owner, options.inside, transactions.look_ups.deadline()).await?;
        let owner = owner.map(|owner| *owner.as_uuid());
        let idle = options.idle.as_secs_f64();
        let settings = settings(session);
        let parameters: &[Value<'_>] = &[owner.into(), session.user.into(), idle.into(), settings.into()];
        let operation = &StoreOperation::new(&transactions.connections).leaving_nothing();
        let first = &transactions.connections.sql().begin_without_key;
        let begin = |attempt| async move {
            let asked = operation.connect(attempt, Reset::RollBack).await?;
            start(asked, options, Statement { sql: first, parameters }).await
        };
        let (asked, _) = operation.run(begin, |_| true).await?;
        let connection = InTransaction::new(asked.into_connection(), &transactions.connections, permit);
        let session = Arc::new(D::Session::new(connection));
        Ok(Box::new(Self { session, transactions: transactions.clone(), claimed: None }))
    }

    async fn committed(self: Box<Self>, completion: Option<Completion>) -> Result<CommitOutcome, StoreError> {
        let deadline = self.transactions.connections.deadline();
        let Some(mut connection) = self.session.end(deadline).await else {
            let cause = "the handler's connection is still in use: a statement runs, or a task has kept it";
            return Err(StoreError::new(StoreErrorKind::Unreachable, cause));
        };
        // The answer of a helper's statement may have come since the engine asked.
        if self.session.is_in_conflict(None) {
            connection.roll_back(deadline).await;
            return Err(StoreError::new(StoreErrorKind::Conflict, "a statement of the handler has lost"));
        }
        let begun = Instant::now();
        connection.set_committing(Some(begun));
        let sent = self.send_commit(&mut connection, completion.as_ref());
        let (rolled_back, lost) = match timeout_at(deadline, sent).await {
            Ok(Ok(())) => {
                self.transactions.connections.contact().answers();
                connection.set_committing(None);
                connection.give_back();
                return Ok(CommitOutcome::Committed);
            }
            Ok(Err(error)) if !Fault::of(&error).is_lost() => {
                self.transactions.connections.contact().answers();
                self.transactions.connections.forget_if_stale(&error);
                connection.set_committing(None);
                // The server tells of an error before it has rolled back. Until it has, the call's own lock looks like that of another call.
                connection.roll_back(deadline).await;
                return match error.code() {
                    Some(SUPERSEDED) => Ok(CommitOutcome::Superseded),
                    Some(UNIQUE_VIOLATION) if self.claimed.as_ref().is_some_and(|claimed| claimed.was_free) => {
                        self.of_violation(error).await
                    }
                    Some(code) if FAILED.contains(&code) && self.session.has_unanswered() => {
                        Err(StoreError::new(StoreErrorKind::Conflict, error).by_a_guess())
                    }
                    Some(NO_TRANSACTION) => Err(StoreError::new(StoreErrorKind::Refused, ENDED_BY_HANDLER)),
                    // The handler has made it so, and does it each time: the transaction could write when it began.
                    Some(READ_ONLY_TRANSACTION) => Err(StoreError::new(StoreErrorKind::Refused, error)),
                    Some(QUERY_CANCELED) if begun.elapsed() < HASTE => {
                        Err(StoreError::new(StoreErrorKind::Refused, error))
                    }
                    _ => Err(StoreError::new(Fault::of(&error).kind(), error)),
                };
            }
            // It is an answer, and a refusal if nothing was committed.
            Ok(Err(error)) if Fault::of(&error) == Fault::Unrecognised => {
                (StoreErrorKind::Refused, Chain(&error).to_string())
            }
            Ok(Err(error)) => (StoreErrorKind::Unreachable, Chain(&error).to_string()),
            Err(elapsed) => (StoreErrorKind::Unreachable, elapsed.to_string()),
        };
        connection.leave(begun);
        match &self.claimed {
            Some(claimed) => {
                let look_ups = &self.transactions.look_ups;
                let reservation = &claimed.claim.reservation;
                look_up(look_ups, reservation, look_ups.deadline(), rolled_back, lost).await
            }
            None => Err(StoreError::new(StoreErrorKind::Interrupted, lost)),
        }
    }

    /// Returns the outcome of a transaction in which a unique constraint was violated: that of the key, if it has a record now, or one of the
    /// handler's, which was deferred to COMMIT.
    async fn of_violation(&self, error: DriverError) -> Result<CommitOutcome, StoreError> {
        let Some(claimed) = &self.claimed else { return Err(StoreError::new(Fault::of(&error).kind(), error)) };
        match look(&self.transactions.look_ups, &claimed.claim, TransactionOptions::default()).await? {
            ClaimOutcome::Acquired => Err(StoreError::new(Fault::of(&error).kind(), error)),
            _ => Ok(CommitOutcome::Superseded),
        }
    }

    /// Rolls back what the handler has dropped, writes the record if there is one, and commits.
    async fn send_commit(
        &self,
        connection: &mut InTransaction<D>,
        completion: Option<&Completion>,
    ) -> Result<(), DriverError> {
        let is_error = matches!(completion, Some(Completion { response: StoredResponse::Error(_), .. }));
        if is_error && self.session.has_unanswered() {
            // The rollback to the savepoint would hide that a statement has failed.
            connection.execute("SELECT 1").await?;
        }
        let roll_back = if is_error { Some(ROLL_BACK_HANDLER.to_owned()) } else { self.session.roll_back_due() };
        let Some((claimed, completion)) = self.claimed.as_ref().zip(completion) else {
            return connection.commit(roll_back.as_deref(), None).await;
        };
        let sql = self.transactions.connections.sql();
        Record::new(claimed, completion).commit(&mut **connection, sql, roll_back.as_deref()).await
    }
}

impl<D: Driver> StoreTransaction for OpenTransaction<D> {
    fn hand_out(&self, extensions: &mut http::Extensions) {
        self.session.hand_out(extensions);
    }

    fn was_used(&self) -> bool {
        self.session.usage().was_used()
    }

    fn times(&self) -> Option<TransactionTimes> {
        Some(self.session.usage().times())
    }

    fn is_in_conflict(&self, answer: Option<&(dyn Error + 'static)>) -> bool {
        self.session.is_in_conflict(answer)
    }

    fn commit(
        self: Box<Self>,
        completion: Option<Completion>,
    ) -> Pin<Box<dyn Future<Output = Result<CommitOutcome, StoreError>> + Send>> {
        Box::pin(self.committed(completion))
    }

    fn roll_back(self: Box<Self>) -> Pin<Box<dyn Future<Output = RollBackOutcome> + Send>> {
        Box::pin(async move { Arc::clone(&self.session).roll_back(self.transactions.connections.deadline()).await })
    }
}

impl<D: Driver> Drop for OpenTransaction<D> {
    /// The handles may live on, in tasks that the handler has spawned.
    fn drop(&mut self) {
        self.session.abort(self.transactions.connections.deadline());
    }
}
