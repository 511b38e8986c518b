//! Tries the statements that calls use. The rows for this belong to an owner that has no other rows.

use std::{fmt, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep, timeout_at};
use uuid::Uuid;

use super::problem::SetupProblem;
use crate::{
    caller::OwnerId,
    key::KeyId,
    policy::{EffectPolicy, ForeignPolicy, LeasePolicy},
    store::{
        AbandonedQuery, BeginOutcome, CallSession, Claim, ClaimOutcome, CommitOutcome, CompleteOutcome, Completion,
        ExtendOutcome, KeyState, LookUp, ReleaseOutcome, RequestHash, Reservation, ResourceTypes, Store, StoreError,
        StoreErrorKind, StoredResponse, TransactionOptions,
        sql::{
            answers::{Fault, is_missing, kind_without_connection, sql_state},
            batch::{Kind, Lanes, Look, LookAt, UnrecordedOutcome, Write, WriteRequest},
            calls::{AdmittedCall, claim},
            connections::Connections,
            driver::{Connection as _, Driver, class},
            transaction::{OpenTransaction, Transactions},
        },
    },
    telemetry::Chain,
};

/// The owner of the rows: a UUIDv8 that no user has as an id. No user's hash is equal to it, either.
const OWNER: Uuid = Uuid::from_u128(0x7665_7269_6679_8000_8000_0000_0000_0000);

/// The procedure of the owner's calls. No service has it.
const PROCEDURE: &str = "/tonic_idempotency.Verify/Verify";

/// The time after which a reservation expires if this process ends before it releases it.
const LIFE: Duration = Duration::from_secs(60);

/// The number of batches to sweep, and the rows of each. A batch may pass over the owner's rows: other rows may have expired before them, or
/// another sweep may lock them.
const SWEEPS: u32 = 8;
const SWEPT: u32 = 1_000;

/// The trial of a store's statements, and the problems that it has found.
pub(in crate::store::sql) struct Probe<'a, S: Store, D: Driver> {
    pub(in crate::store::sql) store: &'a S,
    pub(in crate::store::sql) connections: &'a Connections<D>,
    pub(in crate::store::sql) lanes: &'a Lanes<D>,
    pub(in crate::store::sql) transactions: Transactions<D>,
    pub(in crate::store::sql) resource_types: &'a Arc<ResourceTypes>,
    pub(in crate::store::sql) problems: Vec<SetupProblem>,
}

impl<S: Store, D: Driver> Probe<'_, S, D> {
    /// Claims, renews, records, looks up and releases: alone, together and in a transaction. Also finds abandoned keys, and sweeps expired rows:
    /// its own, and any others that the sweep finds.
    pub(in crate::store::sql) async fn run(mut self) -> Result<Vec<SetupProblem>, StoreError> {
        let [recorded, released] = [(); 2].map(|()| of_owner());
        if !self.claim(&recorded).await? || !self.claim(&released).await? {
            return Ok(self.problems);
        }
        let extended = self.store.extend(&recorded.reservation, Duration::ZERO).await;
        self.tried("a renewal", extended, |outcome| *outcome == ExtendOutcome::Extended)?;
        let completed = self.store.complete(&recorded.reservation, &expired()).await;
        self.tried("a record", completed, |outcome| *outcome == CompleteOutcome::Completed)?;
        // The recorded row has expired, and the sweep of a process that starts beside this one may have deleted it.
        let found = self.store.look_up(&look_up(&released)).await.map(|record| record.state);
        self.tried("a look-up", found, |state| *state != KeyState::Absent)?;
        let search = AbandonedQuery {
            procedures: vec![PROCEDURE.to_owned()],
            lookback: Some(60 * LIFE),
            max_attempts: u32::MAX,
            batch: SWEPT,
        };
        let found = self.store.abandoned(&search).await;
        let key = released.reservation.key;
        let found = found.map(|keys| if keys.iter().any(|found| found.key == key) { "found" } else { "nothing" });
        self.tried("the recovery", found, |found| *found == "found")?;
        let outcome = self.store.release(&released.reservation).await;
        if self.tried("a release", outcome, |outcome| *outcome == ReleaseOutcome::Released)? {
            let found = self.store.look_up(&look_up(&released)).await.map(|record| record.state);
            self.tried("a release", found, |state| *state == KeyState::Absent)?;
        }

        if self.lanes.are_on() {
            self.together().await?;
        }
        self.transaction().await?;
        self.sweep(&recorded).await?;
        Ok(self.problems)
    }

    /// Tries a claim. Returns whether it holds the key now.
    async fn claim(&mut self, claim: &Claim) -> Result<bool, StoreError> {
        let outcome = claim::claim(self.connections, self.lanes, claim).await;
        if let Err(error) = &outcome
            && sql_state(error).is_some_and(|code| class(code) == "23")
        {
            // A foreign key of the column of users, for example.
            tracing::warn!(error = %Chain(error), "the calls are not tried: a constraint of the application allows no rows of another owner");
            return Ok(false);
        }
        self.tried("a claim", outcome, |outcome| matches!(outcome, ClaimOutcome::Acquired))
    }

    /// Tries the batched statements.
    async fn together(&mut self) -> Result<(), StoreError> {
        let claims = [(); 2].map(|()| Arc::new(Claim { lease: LIFE, ..of_owner() }));
        let claiming = claims.each_ref().map(|claim| WriteRequest::Claim(Arc::clone(claim)));
        self.shared::<Write>("claims together", &claiming.each_ref()).await?;
        let looks = claims.each_ref().map(|claim| {
            let Reservation { owner, key, .. } = claim.reservation;
            let other = Claim { reservation: Reservation::new(owner, key), ..Claim::clone(claim) };
            LookAt { claim: Arc::new(other), with_status: false, relies_on_absence: false }
        });
        self.shared::<Look>("looks together", &looks.each_ref()).await?;
        let recordings = claims.each_ref().map(|claim| {
            WriteRequest::Outcome(Box::new(UnrecordedOutcome::new(self.resource_types, claim.reservation, expired())))
        });
        self.shared::<Write>("records together", &recordings.each_ref()).await
    }

    /// Tries a batched statement. An error is a problem of the setup only if something is missing. Any other error is left to the calls, which
    /// are then sent alone: a policy of the application may raise it.
    async fn shared<K: Kind>(&mut self, call: &'static str, items: &[&K::Item]) -> Result<(), StoreError> {
        let acquired = self.connections.acquire().await;
        let mut connection = acquired.map_err(|error| {
            StoreError::new(kind_without_connection(&error, self.connections.are_exhausted()), error)
        })?;
        let begun = Instant::now();
        let until = begun + self.connections.share();
        let run = K::run(&mut connection, self.connections.sql(), (self.connections.clock(), until), items);
        let Ok(answers) = timeout_at(until, run).await else {
            self.connections.park_in_background(connection, begun, Vec::new());
            return Err(StoreError::new(StoreErrorKind::Overloaded, format!("{call}: no answer in time")));
        };
        match answers {
            Ok(answers) if answers.iter().all(Option::is_some) => {}
            Ok(_) => self.problems.push(failed(call, "they do not find their rows")),
            Err(error) if Fault::of(&error).is_lost() => connection.close(),
            Err(error) if is_missing(&error) => self.problems.push(failed(call, Chain(&error))),
            Err(error) => tracing::warn!(call, error = %Chain(&error), "calls cannot share a statement, and go alone"),
        }
        Ok(())
    }

    async fn transaction(&mut self) -> Result<(), StoreError> {
        let (claim, options) = (of_owner(), TransactionOptions::default());
        let begun = OpenTransaction::<D>::begin(
            &self.transactions,
            self.resource_types,
            &claim,
            options,
            AdmittedCall::without_record(),
        )
        .await;
        let outcome = match begun {
            Ok(BeginOutcome::Open { transaction, .. }) => transaction.commit(Some(expired())).await.map(Some),
            Ok(_) => Ok(None),
            Err(error) => Err(error),
        };
        self.tried("a transaction", outcome, |outcome| *outcome == Some(CommitOutcome::Committed)).map(drop)
    }

    /// Sweeps until the row is gone. It stays if many others have expired before it.
    async fn sweep(&mut self, expired: &Claim) -> Result<(), StoreError> {
        let mut deleted = 0;
        for round in 1..=SWEEPS {
            match self.store.sweep(SWEPT).await {
                Ok(rows) => deleted += rows,
                failed => {
                    self.tried("the sweep", failed, |_| true)?;
                    break;
                }
            }
            if self.store.look_up(&look_up(expired)).await?.state == KeyState::Absent {
                return Ok(());
            }
            sleep(Duration::from_millis(10) * round).await;
        }
        if deleted > 0 {
            return Ok(());
        }
        if !self
            .problems
            .iter()
            .any(|problem| matches!(problem, SetupProblem::FailedCall { call, .. } if call == "the sweep"))
        {
            self.problems.push(failed("the sweep", "it does not find what has expired"));
        }
        // The sweep has not removed the expired row, so a claim removes it. The claim may fail, too.
        let Reservation { owner, key, .. } = expired.reservation;
        let again = Claim { reservation: Reservation::new(owner, key), ..expired.clone() };
        if let Ok(ClaimOutcome::Acquired) = claim::claim(self.connections, self.lanes, &again).await {
            let _ = self.store.release(&again.reservation).await;
        }
        Ok(())
    }

    /// Notes a problem if the server has refused the call, or if its answer is wrong.
    fn tried<T: fmt::Debug>(
        &mut self,
        call: &'static str,
        outcome: Result<T, StoreError>,
        is_right: impl FnOnce(&T) -> bool,
    ) -> Result<bool, StoreError> {
        match outcome {
            Ok(outcome) if is_right(&outcome) => return Ok(true),
            Ok(outcome) => self.problems.push(failed(call, format_args!("its answer is {outcome:?}"))),
            Err(error) if error.kind() == StoreErrorKind::Refused => self.problems.push(failed(call, Chain(&error))),
            Err(error) => return Err(error),
        }
        Ok(false)
    }
}

fn failed(call: &str, error: impl fmt::Display) -> SetupProblem {
    SetupProblem::FailedCall { call: call.to_owned(), error: error.to_string() }
}

/// A claim whose lease ends at once.
fn of_owner() -> Claim {
    let owner = OwnerId::new(OWNER);
    Claim {
        reservation: Reservation::new(owner, KeyId::new(Uuid::new_v4())),
        session: CallSession::of_owner(owner),
        procedure: PROCEDURE.to_owned(),
        request: RequestHash::from([0; 32]).into(),
        lease: Duration::ZERO,
        retention: LIFE,
        on_lease_ended: LeasePolicy::Refuse,
        on_foreign_reservation: ForeignPolicy::InProgress,
        effect: EffectPolicy::Anywhere,
        resource_type: None,
    }
}

/// An outcome that expires at once.
fn expired() -> Completion {
    Completion { response: StoredResponse::message(""), resource: None, retention: Duration::ZERO }
}

fn look_up(claim: &Claim) -> LookUp {
    let Reservation { owner, key, .. } = claim.reservation;
    LookUp { owner, key, session: claim.session.clone(), with_status: false }
}
