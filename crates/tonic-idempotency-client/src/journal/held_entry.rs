//! An entry that this process sends.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::time::Instant;
use tonic::Status;

use super::{
    Change, Entry, JournalError, Protection,
    index::{EnterOutcome, Slot},
    inner::Inner,
    writer::Purpose,
};
use crate::{attempt::AttemptOutcome, expiry::Expiry};

/// An entry that this process sends. If it is dropped, the entry stays, and is sent again later.
#[derive(Debug)]
pub(crate) struct HeldEntry {
    pub(super) id: u64,
    pub(super) journal: Arc<Inner>,
    /// Whether it may have been sent before.
    was_sent: bool,
    /// When an attempt was given up that may be under way, and how often it had been sent, when it was taken.
    given_up: Option<Instant>,
    failures: u32,
    expires: Expiry,
    left: Option<Left>,
}

/// How an entry is left that has not ended: when it is sent again, and when an attempt was given up that may be under way.
#[derive(Debug)]
struct Left {
    due: Instant,
    given_up: Option<Instant>,
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
                        (entry.attempts, entry.protection) = (before.attempts, before.protection);
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
        let (given_up, failures) = (journal.index.given_up(id), journal.index.failures(id));
        // One that has just ended has been answered: its key protects it.
        let expires = journal.index.expires(id).unwrap_or_else(|| Expiry::after(journal.settings.max_age));
        Self { id, journal, was_sent, given_up, failures, expires, left: None }
    }

    /// Waits until the earlier entries of its lane have ended.
    pub(crate) async fn turn(&self) {
        self.journal.index.turn(self.id).await;
    }

    /// Uses up the application's decision to send the entry once without protection. When this ends, that is durable: a process that
    /// dies during the attempt leaves no decision for a second one.
    pub(crate) async fn use_waiver(&self, entry: &Entry) -> Result<(), JournalError> {
        if entry.protection != Protection::Waived {
            return Ok(());
        }
        let mut used = entry.clone();
        used.protection = Protection::Unknown;
        self.journal.note(self.id, &used).await
    }

    /// Returns whether it may have been sent before.
    pub(crate) fn was_sent(&self) -> bool {
        self.was_sent
    }

    /// When its last attempt was given up, before this process has taken it, if that attempt may be under way.
    pub(crate) fn given_up(&self) -> Option<Instant> {
        self.given_up
    }

    /// The time after which it is not sent any more.
    pub(crate) fn expires(&self) -> Expiry {
        self.expires
    }

    /// Whether no other call of this process has sent it since it was taken.
    pub(crate) fn is_alone(&self) -> bool {
        self.journal.index.is_alone(self.id, self.failures)
    }

    /// Ends the entry.
    pub(crate) fn end(self) {
        self.journal.end(self.id, |index| index.remove(self.id));
    }

    /// Ends the entry, unless a call with its key has joined: that one ends it.
    pub(crate) fn end_if_alone(self) {
        self.journal.end(self.id, |index| index.remove_alone(self.id, self.failures));
        self.put_back();
    }

    /// Ends the entry with this error, which no caller waits for: it stays, as failed, until it is acknowledged.
    pub(crate) async fn fail(self, mut entry: Entry, error: Status) {
        if self.journal.index.fail(self.id, self.failures) {
            entry.error = Some(error);
            entry.protection = self.journal.protection(&entry);
            // If the note is lost, the entry is sent again by the next process, and fails again.
            let _ = self.journal.note(self.id, &entry).await;
        }
        self.put_back();
    }

    /// Leaves the entry as it was when it was taken: no attempt of this one is under way.
    pub(crate) fn put_back(mut self) {
        self.left = Some(Left { due: Instant::now() + self.pause(), given_up: self.given_up });
    }

    /// As [`put_back`](Self::put_back), for an entry that is sent again as late as possible.
    pub(crate) fn put_back_for_long(mut self) {
        let due = Instant::now() + self.journal.settings.longest_pause();
        self.left = Some(Left { due, given_up: self.given_up });
    }

    /// Leaves the entry in the journal, to be sent again, late if only a change elsewhere helps. Notes its new number of attempts and its
    /// protection. An attempt before the answer's was given up at this time.
    pub(crate) fn leave(mut self, entry: Entry, answer: &AttemptOutcome, attempts: u32, given_up: Option<Instant>) {
        self.note(entry, answer, attempts);
        let pause = if answer.is_stuck() { self.journal.settings.longest_pause() } else { self.pause() };
        self.left = Some(Left { due: Instant::now() + pause, given_up: answer.given_up().max(given_up) });
    }

    fn note(&self, mut entry: Entry, answer: &AttemptOutcome, attempts: u32) {
        let protected_for = answer.protected_for();
        let protected = protected_for.and_then(|time| SystemTime::now().checked_add(time));
        entry.attempts = entry.attempts.saturating_add(attempts);
        entry.protected_until = protected.or(entry.protected_until);
        entry.protection = self.journal.protection(&entry);
        if let Some(time) = protected_for {
            self.journal.index.expire_by(self.id, Expiry::after(time));
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
        let now = Instant::now();
        // A call that is dropped may be under way.
        let left = self.left.take().unwrap_or_else(|| Left { due: now + self.pause(), given_up: Some(now) });
        self.journal.index.release(self.id, left.due, left.given_up);
    }
}

/// The status of a call whose entry has expired before it was sent.
pub(crate) fn too_late() -> Status {
    Status::deadline_exceeded("the call was not sent: its entry has expired meanwhile")
}

/// The status of a call whose turn did not come.
pub(crate) fn behind() -> Status {
    Status::deadline_exceeded("an earlier call of its lane has not ended; this one is sent after it")
}
