//! Transactions of sessions: [`Transaction`].

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tokio::time::Instant;
use uuid::Uuid;

use super::{
    error::SqlError,
    state::{Effect, Id, Seen, StoredRow},
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
}

/// The writes, locks and settings of a transaction. Others see the locks alone.
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
        Self { begun, work: Work::default(), savepoints: Vec::new(), is_aborted: false, left_open: None }
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
