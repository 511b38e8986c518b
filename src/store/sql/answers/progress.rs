//! The state that the attempts of an operation share.

use std::{
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Notify, OwnedSemaphorePermit},
    time::{Instant, timeout_at},
};

use super::{contact::Contact, fault::Fault};

/// Longer than a process lives.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

const SENT: u8 = 1;
const ENDED: u8 = 2;

/// The state that the attempts of an operation share.
pub(in crate::store::sql) struct OperationProgress {
    deadline: Instant,
    contact: Arc<Contact>,
    /// Whether something was sent, and whether the operation has ended: [`SENT`] and [`ENDED`].
    state: AtomicU8,
    /// Whether the first attempt was sent together with those of other operations.
    together: AtomicBool,
    /// Whether the server can be asked.
    answered: AtomicBool,
    /// Whether an answer was lost.
    lost: AtomicBool,
    /// When something was first sent.
    first_sent: OnceLock<Instant>,
    /// When something was last sent alone.
    last_sent: Mutex<Instant>,
    /// How many attempts wait for a connection.
    waiting: AtomicUsize,
    /// Whether attempts are given up together with their connections.
    closing: AtomicBool,
    claiming: Mutex<ClaimState>,
    /// Wakes the tasks that wait for an attempt that may reserve the key.
    claim_ended: Notify,
    /// Held while the operation's status is overdue.
    overdue_status: Mutex<Option<OwnedSemaphorePermit>>,
}

impl OperationProgress {
    pub(in crate::store::sql) fn new(deadline: Instant, contact: Arc<Contact>) -> Self {
        Self {
            deadline,
            contact,
            state: AtomicU8::new(0),
            together: AtomicBool::new(false),
            answered: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            first_sent: OnceLock::new(),
            last_sent: Mutex::new(Instant::now()),
            waiting: AtomicUsize::new(0),
            closing: AtomicBool::new(false),
            claiming: Mutex::default(),
            claim_ended: Notify::new(),
            overdue_status: Mutex::default(),
        }
    }

    pub(in crate::store::sql) fn deadline(&self) -> Instant {
        self.deadline
    }

    pub(in crate::store::sql) fn server_answers(&self) {
        self.contact.answers();
        self.answered.store(true, Ordering::Relaxed);
    }

    pub(in crate::store::sql) fn closes_connections(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    pub(in crate::store::sql) fn take_overdue_status(&self) -> Option<OwnedSemaphorePermit> {
        self.overdue_status.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Holds a permit while the status is overdue.
    pub(in crate::store::sql) fn status_is_overdue(&self, permit: Option<OwnedSemaphorePermit>) {
        *self.overdue_status.lock().unwrap_or_else(PoisonError::into_inner) = permit;
    }

    pub(in crate::store::sql) fn note(&self, fault: Fault) {
        if fault.is_lost() {
            self.loses();
        }
        if fault != Fault::Lost {
            self.server_answers();
        }
    }

    /// Notes that an attempt is about to be sent that may reserve the key until this time. Its COMMIT may be later.
    pub(in crate::store::sql) fn claims_until(&self, until: Instant) {
        let mut claiming = self.claiming();
        claiming.unanswered += 1;
        claiming.until = claiming.until.max(Some(until));
    }

    /// Waits until no attempt may reserve the key any more. Returns whether that is so at the deadline.
    pub(super) async fn claims_are_over(&self, deadline: Instant) -> bool {
        loop {
            let mut ended = pin!(self.claim_ended.notified());
            ended.as_mut().enable();
            let until = match self.claiming().until() {
                Some(until) if until > Instant::now() => until,
                _ => return true,
            };
            if timeout_at(until.min(deadline), ended).await.is_err() && Instant::now() >= deadline {
                return !self.may_claim();
            }
        }
    }

    /// Returns whether an attempt may still reserve the key.
    pub(super) fn may_claim(&self) -> bool {
        self.claiming().until().is_some_and(|until| until > Instant::now())
    }

    /// Ignores poisoning: no operation leaves it half changed.
    fn claiming(&self) -> MutexGuard<'_, ClaimState> {
        self.claiming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that something is about to be sent.
    pub(in crate::store::sql) fn sends(&self) {
        let now = Instant::now();
        self.first_sent.get_or_init(|| now);
        *self.last_sent.lock().unwrap_or_else(PoisonError::into_inner) = now;
        self.state.fetch_or(SENT, Ordering::Relaxed);
    }

    /// Returns when an attempt was first sent.
    pub(in crate::store::sql) fn first_sent(&self) -> Option<Instant> {
        self.first_sent.get().copied()
    }

    /// Returns when an attempt was last sent alone.
    pub(in crate::store::sql) fn last_sent(&self) -> Instant {
        *self.last_sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the first attempt is about to be sent in a batch with those of other operations. Returns whether it may be: an operation
    /// that has ended would not learn that it was sent.
    pub(in crate::store::sql) fn sends_together(&self) -> bool {
        let sends = |state| (state & ENDED == 0).then_some(state | SENT);
        let may_send = self.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sends).is_ok();
        if may_send {
            self.first_sent.get_or_init(Instant::now);
        }
        self.together.fetch_or(may_send, Ordering::Relaxed);
        may_send
    }

    /// Notes that the operation has ended: an attempt that waits for a batch is not sent any more. An attempt that was sent before [is
    /// known](Self::is_sent) from here on.
    pub(in crate::store::sql) fn ends(&self) {
        self.state.fetch_or(ENDED, Ordering::Relaxed);
    }

    pub(in crate::store::sql) fn is_sent_together(&self) -> bool {
        self.together.load(Ordering::Relaxed)
    }

    /// Notes that an answer was lost, with its connection or because that was given up. The attempt may go on in the server for a moment.
    pub(in crate::store::sql) fn loses(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    /// Returns whether an answer was lost.
    pub(in crate::store::sql) fn has_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Sets whether attempts are given up together with their connections.
    pub(in crate::store::sql) fn set_closing(&self, closing: bool) {
        self.closing.store(closing, Ordering::Relaxed);
    }

    pub(in crate::store::sql) fn has_answer(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
    }

    pub(in crate::store::sql) fn is_sent(&self) -> bool {
        self.state.load(Ordering::Relaxed) & SENT != 0
    }

    pub(in crate::store::sql) fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}

/// An attempt that may reserve the key. If it is dropped without an answer, it no longer runs in the server, but may still be on its way.
pub(in crate::store::sql) struct SentClaim(Arc<OperationProgress>);

impl SentClaim {
    /// Makes the handle of an attempt that was [noted](OperationProgress::claims_until).
    pub(in crate::store::sql) fn of(progress: &Arc<OperationProgress>) -> Self {
        Self(Arc::clone(progress))
    }

    pub(in crate::store::sql) fn answered(self) {
        self.0.claiming().answered += 1;
    }

    pub(in crate::store::sql) fn progress(&self) -> &Arc<OperationProgress> {
        &self.0
    }
}

impl Drop for SentClaim {
    fn drop(&mut self) {
        let mut claiming = self.0.claiming();
        claiming.unanswered -= 1;
        match claiming.answered.checked_sub(1) {
            Some(answered) => claiming.answered = answered,
            None => claiming.lost = true,
        }
        drop(claiming);
        self.0.claim_ended.notify_waiters();
    }
}

/// The attempts that may reserve the key.
#[derive(Default)]
struct ClaimState {
    /// The attempts that have no answer, and may run in the server.
    unanswered: u16,
    /// The attempts among these that are answered after all, and not yet dropped.
    answered: u16,
    /// Whether one is lost.
    lost: bool,
    /// The time after which none of them takes effect, unless it has begun by then.
    until: Option<Instant>,
}

impl ClaimState {
    /// Returns the time until which an attempt may reserve the key, if one may. An attempt without an answer has no limit: its COMMIT may
    /// wait for a standby.
    fn until(&self) -> Option<Instant> {
        if self.unanswered > 0 { Some(Instant::now() + FOREVER) } else { self.until.filter(|_| self.lost) }
    }
}

/// The time in which an operation makes attempts. It [ends](OperationProgress::ends) when this is dropped.
pub(in crate::store::sql) struct RunningOperation<'a>(pub(in crate::store::sql) &'a OperationProgress);

impl Drop for RunningOperation<'_> {
    fn drop(&mut self) {
        self.0.ends();
    }
}

/// Counts an attempt that waits for a connection or for a batch.
pub(in crate::store::sql) struct WaitingAttempt(Arc<OperationProgress>);

impl WaitingAttempt {
    pub(in crate::store::sql) fn progress(&self) -> &Arc<OperationProgress> {
        &self.0
    }
}

impl WaitingAttempt {
    pub(in crate::store::sql) fn new(progress: &Arc<OperationProgress>) -> Self {
        progress.waiting.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(progress))
    }
}

impl Drop for WaitingAttempt {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
