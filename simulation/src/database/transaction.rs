//! Transactions of sessions: [`Transaction`].

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tokio::time::Instant;
use uuid::Uuid;

use super::{
    error::SqlError,
    stored_row::{Effect, Id, Seen, StoredRow},
    trouble::LeftOpen,
};

/// An open transaction.
#[derive(Debug)]
pub(super) struct Transaction {
    /// When it began, by the database's clock.
    pub(super) begun: Instant,
    /// Its writes and settings, as of the last savepoint and since.
    pub(super) work: Work,
    savepoints: Vec<(String, Work)>,
    /// Whether a statement has failed.
    pub(super) is_aborted: bool,
    /// How a pooler's other client has left it open, if it has.
    pub(super) left_open: Option<LeftOpen>,
    /// Whether it is that of one statement, which has begun it.
    pub(super) is_implicit: bool,
    /// The progress of the statement that runs.
    pub(super) progress: Option<Progress>,
}

/// The progress of a statement. One that has waited for another transaction goes on where it was, with the rows that it has written, and by the
/// clock as it has read it before.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    /// The work of the transaction before the statement.
    pub(super) before: Work,
    pub(super) began: Instant,
    /// When it has last read the clock.
    pub(super) time: Instant,
    /// The change that it waits with: a row's number, `None` for a new row, and what is done to it.
    pub(super) change: Option<(Option<u64>, Change)>,
    /// How many of its rows it is done with, if it has several.
    pub(super) rows: usize,
    pub(super) completed: Vec<Uuid>,
    pub(super) reserved: Vec<Uuid>,
}

/// A change of a row by a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Delete,
    Insert,
    Renew,
    TakeOver,
}

impl Progress {
    pub(super) fn new(before: Work, now: Instant) -> Self {
        let (change, rows, completed, reserved) = Default::default();
        Self { before, began: now, time: now, change, rows, completed, reserved }
    }
}

/// The writes, locks and settings of a transaction. Others see only the locks.
#[derive(Clone, Debug, Default)]
pub(super) struct Work {
    /// The rows that it has written, and locks; `None` for those that it has deleted.
    pub(super) rows: BTreeMap<Id, Option<StoredRow>>,
    pub(super) effects: Vec<(Effect, bool)>,
    /// The keys whose advisory locks it holds.
    pub(super) locks: BTreeSet<Id>,
    /// `app.idempotency_token`
    pub(super) token: Option<Uuid>,
    /// `app.idempotency_seen`
    pub(super) seen: Option<Seen>,
    /// `idle_in_transaction_session_timeout`
    pub(super) idle: Option<Duration>,
    /// `synchronous_commit = off`
    pub(super) is_asynchronous: bool,
    /// Whether COMMIT waits for the disk although no row was written.
    pub(super) has_message: bool,
}

impl Work {
    pub(super) fn writes(&self) -> bool {
        !self.rows.is_empty() || !self.effects.is_empty() || self.has_message
    }
}

impl Transaction {
    pub(super) fn new(begun: Instant) -> Self {
        Self {
            begun,
            work: Work::default(),
            savepoints: Vec::new(),
            is_aborted: false,
            left_open: None,
            is_implicit: false,
            progress: None,
        }
    }

    /// Makes the transaction of a statement that is in no other.
    pub(super) fn of_statement(begun: Instant) -> Self {
        Self { is_implicit: true, ..Self::new(begun) }
    }

    pub(super) fn set_savepoint(&mut self, name: &str) {
        self.savepoints.push((name.to_owned(), self.work.clone()));
    }

    pub(super) fn roll_back_to(&mut self, name: &str) -> Result<(), SqlError> {
        let at = self.place_of(name)?;
        self.savepoints.truncate(at + 1);
        self.work = self.savepoints[at].1.clone();
        self.is_aborted = false;
        Ok(())
    }

    pub(super) fn release(&mut self, name: &str) -> Result<(), SqlError> {
        let at = self.place_of(name)?;
        self.savepoints.truncate(at);
        Ok(())
    }

    fn place_of(&self, name: &str) -> Result<usize, SqlError> {
        self.savepoints.iter().rposition(|(its, _)| its == name).ok_or(SqlError::NO_SAVEPOINT)
    }
}
