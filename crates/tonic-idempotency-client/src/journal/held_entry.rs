//! An entry that this process sends.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::time::Instant;
use tonic::Status;

use super::{
    Change, Entry, JournalError,
    index::{EnterOutcome, Slot},
    inner::Inner,
    writer::Purpose,
};
use crate::attempt::AttemptOutcome;

/// An entry that this process sends. If it is dropped, the entry stays, and is sent again later.
#[derive(Debug)]
pub(crate) struct HeldEntry {
    pub(super) id: u64,
    pub(super) journal: Arc<Inner>,
    /// Whether it may have been sent before.
    was_sent: bool,
    due: Option<Instant>,
}

/// Why a call is not sent.
#[derive(Debug)]
pub(crate) enum HoldError {
    /// It has not been sent, and is not in the journal.
    Refused(JournalError),
    /// It is in the journal, and may have been sent before.
    Unread(JournalError),
}

impl HeldEntry {
    /// Writes an entry. When this ends, it is durable. One that has been written before keeps its age and its protection.
    pub(crate) async fn write(journal: Arc<Inner>, entry: &mut Entry) -> Result<Self, HoldError> {
        let slot = Slot::of(entry, journal.settings.expires(entry));
        loop {
            let changed = journal.index.changed();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            match journal.index.enter(slot.clone()) {
                EnterOutcome::New(id) => {
                    let written = journal.hand(Change::Put { id, record: entry.encode() }, Purpose::Write);
                    let held = Self::new(id, Arc::clone(&journal), false);
                    written.await.map_err(HoldError::Refused)?;
                    return Ok(held);
                }
                EnterOutcome::Before(id) => {
                    let held = Self::new(id, Arc::clone(&journal), true);
                    if let Some(before) = journal.read(id).await.map_err(HoldError::Unread)? {
                        if !before.is(entry) {
                            return Err(HoldError::Refused(JournalError::KeyReused { key: entry.key.to_string() }));
                        }
                        (entry.written, entry.protected_until) = (before.written, before.protected_until);
                        entry.attempts = before.attempts;
                        journal.revive(id, before).await.map_err(HoldError::Unread)?;
                    }
                    return Ok(held);
                }
                EnterOutcome::Expired => {
                    return Err(HoldError::Refused(JournalError::Expired { key: entry.key.to_string() }));
                }
                EnterOutcome::Unwritten => changed.await,
            }
        }
    }

    pub(super) fn new(id: u64, journal: Arc<Inner>, was_sent: bool) -> Self {
        Self { id, journal, was_sent, due: None }
    }

    /// Waits until the earlier entries of its lane have ended.
    pub(crate) async fn turn(&self) {
        loop {
            let changed = self.journal.index.changed();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            if self.journal.index.has_turn(self.id) {
                return;
            }
            changed.await;
        }
    }

    /// Returns whether it may have been sent before.
    pub(crate) fn was_sent(&self) -> bool {
        self.was_sent
    }

    /// Ends the entry.
    pub(crate) fn end(self) {
        self.journal.end(self.id);
    }

    /// Ends the entry with this error, which no caller waits for: it stays, as failed, until it is acknowledged.
    pub(crate) async fn fail(self, mut entry: Entry, error: Status) {
        entry.error = Some(error);
        // If the note is lost, the entry is sent again, and fails again.
        let _ = self.journal.note(self.id, &entry).await;
        self.journal.index.fail(self.id);
    }

    /// As [`leave`](Self::leave), for an entry that is sent again as late as possible.
    pub(crate) fn leave_for_long(mut self, entry: Entry, answer: &AttemptOutcome, attempts: u32) {
        self.note(entry, answer, attempts);
        self.due = Instant::now().checked_add(self.journal.settings.longest_pause());
    }

    /// Leaves the entry in the journal, to be sent again, with its new number of attempts and its protection.
    pub(crate) fn leave(mut self, entry: Entry, answer: &AttemptOutcome, attempts: u32) {
        self.note(entry, answer, attempts);
        self.due = Instant::now().checked_add(self.pause());
    }

    fn note(&self, mut entry: Entry, answer: &AttemptOutcome, attempts: u32) {
        let protected = answer.protected_for().and_then(|time| SystemTime::now().checked_add(time));
        entry.attempts = entry.attempts.saturating_add(attempts);
        entry.protected_until = protected.or(entry.protected_until);
        if let Some(until) = protected {
            self.journal.index.protected_until(self.id, until);
        }
        drop(self.journal.note(self.id, &entry));
    }

    /// The pause before it is sent again.
    fn pause(&self) -> Duration {
        self.journal.settings.pause(self.journal.index.failures(self.id))
    }
}

impl Drop for HeldEntry {
    fn drop(&mut self) {
        let due = self.due.unwrap_or_else(|| Instant::now() + self.pause());
        self.journal.index.release(self.id, due);
    }
}

/// The status of a call whose turn did not come.
pub(crate) fn behind() -> Status {
    Status::deadline_exceeded("an earlier call of its lane has not ended; this one is sent after it")
}
