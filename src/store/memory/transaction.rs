//! The transactions of the store in memory, which are none: [`NoTransaction`].

use std::{error::Error, pin::Pin};

use super::{
    hold::Hold,
    record::{Look, Record},
    state::{Shared, id},
};
use crate::store::{
    BeginOutcome, Claim, CommitOutcome, Completion, RollBackOutcome, StoreError, StoreErrorKind, StoreTransaction,
    TransactionOptions,
};

/// A transaction that is none: it holds the key and writes the record, and has nothing for the handler.
#[derive(Debug)]
pub(super) struct NoTransaction {
    state: Shared,
    /// `None` for a call without a key.
    claim: Option<Claim>,
}

impl NoTransaction {
    /// Holds the key of a claim, or says why not.
    pub(super) fn begin(shared: &Shared, claim: &Claim, options: TransactionOptions) -> BeginOutcome {
        let mut state = shared.lock();
        let now = state.now();
        let taken_over = match state.look(claim, now) {
            Look::Absent => false,
            Look::Held { .. } | Look::TakeOver => true,
            Look::Refused(outcome) => return BeginOutcome::Refused(outcome),
        };
        let id = id(&claim.reservation);
        let seen = state.records.get(&id).map(|record| record.token);
        let hold = Hold { token: claim.reservation.token, idle_until: now + options.idle, seen };
        state.holds.insert(id, hold);
        let transaction = Box::new(Self { state: shared.clone(), claim: Some(claim.clone()) });
        BeginOutcome::Open { transaction, taken_over }
    }

    pub(super) fn without_key(shared: &Shared) -> Self {
        Self { state: shared.clone(), claim: None }
    }

    /// Lets the key go, and writes the record. The rest is done when this is dropped.
    fn committed(self, completion: Option<Completion>) -> Result<CommitOutcome, StoreError> {
        let Some(claim) = &self.claim else { return Ok(CommitOutcome::Committed) };
        let mut state = self.state.lock();
        let now = state.now();
        let Some(hold) = state.release(claim).filter(|hold| hold.idle_until > now) else {
            return Err(StoreError::new(StoreErrorKind::Unreachable, "the transaction was idle for too long"));
        };
        let Some(completion) = completion else { return Ok(CommitOutcome::Committed) };
        if !state.may_be_recorded(claim, &hold, now) {
            return Ok(CommitOutcome::Superseded);
        }
        state.records.insert(id(&claim.reservation), Record::completed(claim, completion, now));
        Ok(CommitOutcome::Committed)
    }
}

impl StoreTransaction for NoTransaction {
    /// Hands out nothing: the error of a handler that asks for a transaction says that this store has none.
    fn hand_out(&self, _extensions: &mut http::Extensions) {}

    /// There is nothing that a handler could have left unused.
    fn was_used(&self) -> bool {
        true
    }

    fn is_in_conflict(&self, _answer: Option<&(dyn Error + 'static)>) -> bool {
        false
    }

    fn commit(
        self: Box<Self>,
        completion: Option<Completion>,
    ) -> Pin<Box<dyn Future<Output = Result<CommitOutcome, StoreError>> + Send>> {
        Box::pin(async move { self.committed(completion) })
    }

    fn roll_back(self: Box<Self>) -> Pin<Box<dyn Future<Output = RollBackOutcome> + Send>> {
        drop(self);
        Box::pin(std::future::ready(RollBackOutcome::RolledBack))
    }
}

impl Drop for NoTransaction {
    fn drop(&mut self) {
        if let Some(claim) = &self.claim {
            self.state.lock().release(claim);
        }
    }
}
