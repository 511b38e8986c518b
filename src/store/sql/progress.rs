//! What is known of an operation's attempts.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use tokio::{sync::OwnedSemaphorePermit, time::Instant};

use super::fault::Fault;

/// What is known of an operation's attempts.
pub(super) struct Progress {
    deadline: Instant,
    /// Whether something was sent.
    sent: AtomicBool,
    /// Whether the server can be asked.
    answered: AtomicBool,
    /// Whether an answer was lost.
    lost: AtomicBool,
    /// How many attempts wait for a connection.
    waiting: AtomicUsize,
    /// Whether attempts are given up together with their connections.
    closing: AtomicBool,
    /// Held while the operation's status is overdue.
    overdue_status: Mutex<Option<OwnedSemaphorePermit>>,
}

impl Progress {
    pub(super) fn new(deadline: Instant) -> Self {
        Self {
            deadline,
            sent: AtomicBool::new(false),
            answered: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            closing: AtomicBool::new(false),
            overdue_status: Mutex::default(),
        }
    }

    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    pub(super) fn server_answers(&self) {
        self.answered.store(true, Ordering::Relaxed);
    }

    pub(super) fn closes_connections(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    pub(super) fn take_overdue_status(&self) -> Option<OwnedSemaphorePermit> {
        self.overdue_status.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Holds a permit while the status is overdue.
    pub(super) fn status_is_overdue(&self, permit: Option<OwnedSemaphorePermit>) {
        *self.overdue_status.lock().unwrap_or_else(PoisonError::into_inner) = permit;
    }

    pub(super) fn note(&self, fault: Fault) {
        if fault.is_lost() {
            self.loses();
        }
        if fault != Fault::Lost {
            self.server_answers();
        }
    }

    /// Notes that something is about to be sent.
    pub(super) fn sends(&self) {
        self.sent.store(true, Ordering::Relaxed);
    }

    /// Notes that an answer was lost.
    pub(super) fn loses(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    /// Returns whether an answer was lost.
    pub(super) fn has_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Says whether attempts are given up together with their connections.
    pub(super) fn set_closing(&self, closing: bool) {
        self.closing.store(closing, Ordering::Relaxed);
    }

    pub(super) fn has_answer(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
    }

    pub(super) fn is_sent(&self) -> bool {
        self.sent.load(Ordering::Relaxed)
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}

/// Counts an attempt that waits for a connection.
pub(super) struct Waiting<'a>(&'a Progress);

impl<'a> Waiting<'a> {
    pub(super) fn new(progress: &'a Progress) -> Self {
        progress.waiting.fetch_add(1, Ordering::Relaxed);
        Self(progress)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
