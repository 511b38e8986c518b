//! What is known of an operation's attempts.

use std::{
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering},
    },
};

use tokio::{
    sync::{Notify, OwnedSemaphorePermit},
    time::{Instant, timeout_at},
};

use super::fault::Fault;

const SENT: u8 = 1;
const ENDED: u8 = 2;

/// What is known of an operation's attempts.
pub(super) struct Progress {
    deadline: Instant,
    /// Whether something was sent, and whether the operation has ended: [`SENT`] and [`ENDED`].
    state: AtomicU8,
    /// Whether the first attempt was sent together with those of other operations.
    together: AtomicBool,
    /// Whether the server can be asked.
    answered: AtomicBool,
    /// Whether an answer was lost.
    lost: AtomicBool,
    /// When something was last sent.
    last_sent: Mutex<Instant>,
    /// How many attempts wait for a connection.
    waiting: AtomicUsize,
    /// Whether attempts are given up together with their connections.
    closing: AtomicBool,
    /// How many attempts that may reserve the key have no answer, and when the last one of all has no effect any more.
    claiming: Mutex<(usize, Option<Instant>)>,
    /// Wakes those who wait for these answers.
    claim_answered: Notify,
    /// Held while the operation's status is overdue.
    overdue_status: Mutex<Option<OwnedSemaphorePermit>>,
}

impl Progress {
    pub(super) fn new(deadline: Instant) -> Self {
        Self {
            deadline,
            state: AtomicU8::new(0),
            together: AtomicBool::new(false),
            answered: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            last_sent: Mutex::new(Instant::now()),
            waiting: AtomicUsize::new(0),
            closing: AtomicBool::new(false),
            claiming: Mutex::default(),
            claim_answered: Notify::new(),
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

    /// Notes that an attempt is about to be sent that may reserve the key until this time.
    pub(super) fn claims_until(&self, until: Instant) {
        let mut claiming = self.claiming.lock().unwrap_or_else(PoisonError::into_inner);
        *claiming = (claiming.0 + 1, claiming.1.max(Some(until)));
    }

    /// Notes that such an attempt is answered.
    pub(super) fn claim_is_answered(&self) {
        self.claiming.lock().unwrap_or_else(PoisonError::into_inner).0 -= 1;
        self.claim_answered.notify_waiters();
    }

    /// Waits until no attempt may reserve the key any more.
    pub(super) async fn claims_are_over(&self) {
        loop {
            let mut answered = pin!(self.claim_answered.notified());
            answered.as_mut().enable();
            match self.may_claim_until() {
                Some(until) if until > Instant::now() => drop(timeout_at(until, answered).await),
                _ => return,
            }
        }
    }

    /// Returns until when an attempt without an answer may reserve the key.
    pub(super) fn may_claim_until(&self) -> Option<Instant> {
        let (unanswered, until) = *self.claiming.lock().unwrap_or_else(PoisonError::into_inner);
        until.filter(|_| unanswered > 0)
    }

    /// Notes that something is about to be sent.
    pub(super) fn sends(&self) {
        *self.last_sent.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.state.fetch_or(SENT, Ordering::Relaxed);
    }

    /// Returns when an attempt was last sent alone.
    pub(super) fn last_sent(&self) -> Instant {
        *self.last_sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the first attempt is about to be sent together with those of other operations. Returns whether it may be: once
    /// the operation has ended, nobody would know that it was sent.
    pub(super) fn sends_together(&self) -> bool {
        let sends = |state| (state & ENDED == 0).then_some(state | SENT);
        let may_send = self.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sends).is_ok();
        self.together.fetch_or(may_send, Ordering::Relaxed);
        may_send
    }

    /// Notes that the operation has ended: what waits to be sent together with others is not sent. What was sent before
    /// [is known](Self::is_sent) from here on.
    pub(super) fn ends(&self) {
        self.state.fetch_or(ENDED, Ordering::Relaxed);
    }

    pub(super) fn is_sent_together(&self) -> bool {
        self.together.load(Ordering::Relaxed)
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
        self.state.load(Ordering::Relaxed) & SENT != 0
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}

/// The time in which an operation makes attempts. It [ends](Progress::ends) when this is dropped.
pub(super) struct Running<'a>(pub(super) &'a Progress);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.ends();
    }
}

/// Counts an attempt that waits for a connection, or to go together with others.
pub(super) struct Waiting(Arc<Progress>);

impl Waiting {
    pub(super) fn new(progress: &Arc<Progress>) -> Self {
        progress.waiting.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(progress))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
