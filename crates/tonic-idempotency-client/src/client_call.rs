//! A call of the application, with all its attempts.

use std::{pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::future::{Either, select};
use http::{Request, Response};
use http_body::Body as HttpBody;
use http_body_util::Full;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::{Status, body::Body};
use tonic_idempotency_wire::IdempotencyStatus;
use tower_service::Service;

use crate::{
    BoxError, Delivery, OperationKey, Unresolved,
    answered_call::{AnsweredCall, last_replay_or_untold},
    attempt::{AttemptFuture, AttemptOutcome, ResponseBody, was_replayed},
    description::{Description, ProcedureQuestion},
    expiry::Expiry,
    head::Head,
    journal::{
        Entry, Journal, Protection,
        held_entry::{HoldError, behind, too_late},
    },
    known_procedure::KnownProcedure,
    peer::Peer,
    permission::{Demand, Permission, SendRefusal, Standing},
    settings::Attempts,
    shared::Shared,
    telemetry::{End, Telemetry},
    verdict::{Others, Verdict},
};

/// A call of the application: one operation, whose attempts all have the same key and message.
pub(crate) struct ClientCall<S> {
    pub(crate) attempts: Attempts,
    pub(crate) head: Head,
    /// Whether it may have been sent before, by this process or by an earlier one.
    pub(crate) was_sent: bool,
    /// Whether it is in the journal, and stays there unless it ends.
    pub(crate) in_journal: bool,
    /// Whether the process that wrote it down has seen that its server has the layer.
    pub(crate) was_protected: bool,
    /// Why it was not sent, or not sent again.
    pub(crate) unsent: Option<SendRefusal>,
    /// The time after which a second attempt is made beside the first.
    pub(crate) hedge_after: Option<Duration>,
    pub(crate) message: Bytes,
    /// The number of the procedure.
    pub(crate) number: usize,
    /// The service that sends further attempts.
    pub(crate) peer: Arc<Peer<S>>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) telemetry: Arc<Telemetry>,
}

impl<S, B> ClientCall<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    /// Waits for the first attempt, or for a second one beside it, as the server lets that one wait for the first.
    pub(crate) async fn hedged(
        mut self,
        sent: S::Future,
        after: Duration,
    ) -> Result<Response<ResponseBody<B>>, BoxError> {
        let answer = self.first_or_second(sent, after).await;
        let answer = self.until_end(answer).await;
        self.finish(answer)
    }

    /// Makes all attempts of an operation that is written down before the first one. The service is ready.
    pub(crate) async fn journaled(
        mut self,
        mut service: S,
        journal: Journal,
        mut entry: Entry,
    ) -> Result<Response<ResponseBody<B>>, BoxError> {
        let deadline = self.attempts.deadline().by_timers();
        let held = match timeout_at(deadline, journal.write(&mut entry)).await {
            Ok(Ok(held)) => held,
            Ok(Err(HoldError::Refused(error))) => return Ok(error.status().into_http()),
            Ok(Err(HoldError::Unread(error))) => {
                self.in_journal = true;
                return self.not_sent(error.status());
            }
            Err(_) => return self.not_sent(unwritten()),
        };
        (self.was_sent, self.in_journal) = (held.was_sent(), true);
        self.attempts.give_up(held.given_up());
        self.attempts.end_by(held.expires());
        self.was_protected = entry.protection == Protection::Seen;
        if timeout_at(deadline, held.turn()).await.is_err() {
            held.put_back();
            return self.not_sent(behind());
        }
        if entry.protection != Protection::Waived
            && let Err(unsent) = self.admitted(!self.was_sent).await
        {
            if matches!(unsent, SendRefusal::Unprotected) && !self.was_sent {
                held.end_if_alone();
                return self.refused(unsent.status());
            }
            held.put_back();
            return self.unsent(unsent);
        }
        let unsent = match timeout_at(deadline, held.use_waiver(&entry)).await {
            Ok(Err(error)) => Some(error.status()),
            Ok(Ok(())) if !self.attempts.deadline().has_come() => None,
            _ => Some(unwritten()),
        };
        if let Some(status) = unsent {
            held.put_back();
            return self.not_sent(status);
        }
        let answer = self.all_attempts(&mut service).await;
        if !held.is_alone() {
            self.attempts.give_up(Some(Instant::now()));
        }
        let verdict = self.verdict(&answer);
        match verdict {
            Verdict::Ended => held.end(),
            _ => held.leave(entry, &answer, self.attempts.made(), self.attempts.given_up()),
        }
        self.finish_as(verdict, answer)
    }

    /// Makes all attempts of an operation that the journal has sent before, or another process. The service is ready.
    pub(crate) async fn resumed(
        mut self,
        mut service: S,
        protection: Protection,
    ) -> Result<Response<ResponseBody<B>>, BoxError> {
        if protection != Protection::Waived
            && let Err(unsent) = self.admitted(false).await
        {
            return self.unsent(unsent);
        }
        if self.attempts.deadline().has_come() {
            return self.not_sent(too_late());
        }
        let answer = self.all_attempts(&mut service).await;
        self.finish(answer)
    }

    async fn all_attempts(&mut self, ready: &mut S) -> AttemptOutcome {
        self.attempts.sends();
        let first = ready.call(self.request(0));
        let answer = match self.hedge_after {
            None => self.bounded(self.attempt(first)).await,
            Some(after) => self.first_or_second(first, after).await,
        };
        self.until_end(answer).await
    }

    async fn first_or_second(&mut self, sent: S::Future, after: Duration) -> AttemptOutcome {
        let RaceOutcome { answer, made, given_up } = self.race(sent, after).await;
        self.attempts.have_been(made);
        self.attempts.give_up(given_up);
        answer
    }

    /// Waits for the first attempt, or for a second one beside it.
    async fn race(&self, sent: S::Future, after: Duration) -> RaceOutcome {
        let first = pin!(self.bounded(self.attempt(sent)));
        let first = match select(first, pin!(sleep(after))).await {
            Either::Left((answer, _)) => return RaceOutcome::of_one(answer),
            Either::Right(((), first)) => first,
        };
        let second = pin!(async {
            let is_sent = self.asked(false).await.is_ok() && self.shared.settings.spend();
            if is_sent { self.send(1).await } else { None }
        });
        let beside = Others::UnderWay(self.shared.settings.attempt_timeout);
        let has_ended = |answer: &AttemptOutcome| answer.verdict(beside) == Verdict::Ended;
        match select(first, second).await {
            Either::Left((answer, second)) if !has_ended(&answer) => match second.await {
                Some(second) => RaceOutcome::of_two(second, answer.given_up()),
                None => RaceOutcome::of_one(answer),
            },
            Either::Right((None, first)) => RaceOutcome::of_one(first.await),
            Either::Right((Some(answer), first)) if !has_ended(&answer) => {
                RaceOutcome::of_two(first.await, answer.given_up())
            }
            Either::Left((answer, _)) | Either::Right((Some(answer), _)) => RaceOutcome::of_two(answer, None),
        }
    }

    /// Makes further attempts, the first of them after this answer and this pause.
    pub(crate) async fn again(
        mut self,
        answer: AttemptOutcome,
        pause: Duration,
    ) -> Result<Response<ResponseBody<B>>, BoxError> {
        let answer = self.after(answer, Some(pause)).await;
        self.finish(answer)
    }

    /// Makes further attempts until the answer of one is the answer of the operation.
    async fn until_end(&mut self, answer: AttemptOutcome) -> AttemptOutcome {
        let pause = self.next(&answer);
        self.after(answer, pause).await
    }

    /// Makes the next attempt after this pause, and further ones as long as there is time.
    async fn after(&mut self, mut answer: AttemptOutcome, mut pause: Option<Duration>) -> AttemptOutcome {
        while let Some(time) = pause {
            sleep(time).await;
            if self.admitted(false).await.is_err() {
                break;
            }
            self.attempts.sends();
            let Some(next) = self.send(self.attempts.before()).await else { break };
            answer = next;
            pause = self.next(&answer);
        }
        answer
    }

    /// Returns the pause before the next attempt; `None` if there is none.
    pub(crate) fn next(&mut self, answer: &AttemptOutcome) -> Option<Duration> {
        if self.head.key().is_some()
            && let Some(is_protected) = answer.shows_protection()
        {
            self.procedure().heard(self.head.procedure(), is_protected);
            if let Some(journal) = self.journal() {
                journal.heard(self.head.procedure(), is_protected);
            }
        }
        let verdict = match self.verdict(answer) {
            Verdict::Again(_) | Verdict::Late if self.permission(false) == Permission::Refused => Verdict::Unknown,
            verdict => verdict,
        };
        let pause = self.attempts.next(verdict, &self.shared.settings)?;
        self.attempts.give_up(answer.given_up());
        if let Some(time) = answer.protected_for() {
            self.attempts.end_by(Expiry::after(time));
        }
        Some(pause)
    }

    /// Waits until the attempt that is due may be sent. As long as the server does not say so, it is asked again in the place of further
    /// attempts.
    async fn admitted(&mut self, is_first: bool) -> Result<(), SendRefusal> {
        loop {
            let Err(unsent) = self.asked(is_first).await else { return Ok(()) };
            self.attempts.withhold();
            let next = match &unsent {
                SendRefusal::Unshown => None,
                SendRefusal::Unanswered(answer) => self.attempts.next(answer.verdict, &self.shared.settings),
                SendRefusal::Unprotected => {
                    self.unsent = Some(SendRefusal::Unprotected);
                    self.procedure().is_not_protected(self.head.procedure());
                    None
                }
            };
            match next {
                Some(pause) => sleep(pause).await,
                None => return Err(unsent),
            }
        }
    }

    /// Asks the server, if that is necessary, whether it protects the procedure, so that an attempt may be sent.
    async fn asked(&self, is_first: bool) -> Result<(), SendRefusal> {
        let if_untold = match self.permission(is_first) {
            Permission::Granted => return Ok(()),
            Permission::Refused => return Err(SendRefusal::Unshown),
            Permission::ToBeAsked { if_untold } => if_untold,
        };
        let sent = self.peer.send(ProcedureQuestion::request(&self.head));
        let description = self.bounded(self.procedure().question.ask(sent)).await;
        if matches!(description, Description::Protected) {
            self.procedure().is_described();
            if let Some(journal) = self.journal() {
                journal.heard(self.head.procedure(), true);
            }
        }
        description.permits(if_untold)
    }

    /// Returns whether an attempt may be sent, by what is known of the server.
    fn permission(&self, is_first: bool) -> Permission {
        if self.head.key().is_none() {
            return Permission::Granted;
        }
        let journal = self.journal();
        let demand = match journal {
            Some(journal) if journal.requires_protection() => Demand::Shown,
            None if !self.shared.settings.requires_protection => Demand::Nothing,
            _ => Demand::NoneMissing,
        };
        let has_shown =
            || self.was_protected || journal.is_some_and(|journal| journal.has_heard(self.head.procedure()));
        let standing = match self.procedure().standing() {
            Standing::Shown if demand == Demand::Shown && !has_shown() => Standing::Unknown,
            Standing::Unknown if has_shown() => Standing::Shown,
            standing => standing,
        };
        Permission::of(demand, standing, is_first)
    }

    /// The knowledge of its procedure.
    fn procedure(&self) -> &KnownProcedure {
        self.peer.procedure(self.number)
    }

    /// The journal, if the call is of a procedure that takes keys.
    fn journal(&self) -> Option<&Journal> {
        self.shared.journal.as_ref().filter(|_| self.head.key().is_some())
    }

    /// Returns the error of an operation that was never sent, and never will be.
    fn refused(mut self, status: Status) -> Result<Response<ResponseBody<B>>, BoxError> {
        self.attempts.have_been(0);
        self.note(End::Failed);
        Ok(status.into_http())
    }

    /// Returns the error of an operation that was not sent to a server which may lack the layer.
    fn unsent(mut self, unsent: SendRefusal) -> Result<Response<ResponseBody<B>>, BoxError> {
        self.unsent = Some(unsent.clone());
        self.not_sent(unsent.status())
    }

    /// Returns the error of an operation without an attempt.
    pub(crate) fn not_sent(mut self, status: Status) -> Result<Response<ResponseBody<B>>, BoxError> {
        self.was_sent = true;
        self.attempts.have_been(0);
        self.finish(AttemptOutcome::Lost(Box::new(status)))
    }

    /// Returns the meaning of the last attempt's answer.
    pub(crate) fn verdict(&self, answer: &AttemptOutcome) -> Verdict {
        answer.verdict(match self.attempts.others(&self.shared.settings) {
            Others::None if self.was_sent => Others::Over,
            others => others,
        })
    }

    /// Returns the response of the last attempt, or the error of a call with an unknown outcome.
    pub(crate) fn finish(self, answer: AttemptOutcome) -> Result<Response<ResponseBody<B>>, BoxError> {
        let verdict = self.verdict(&answer);
        self.finish_as(verdict, answer)
    }

    fn finish_as(self, verdict: Verdict, answer: AttemptOutcome) -> Result<Response<ResponseBody<B>>, BoxError> {
        if self.attempts.are_refused_by_budget() {
            self.telemetry.refused_by_budget();
        }
        if verdict != Verdict::Ended
            && let Some(key) = self.head.key().and_then(OperationKey::from_header)
        {
            // Without an attempt, the answer is the layer's own.
            let answered = (self.attempts.made() > 0).then(|| answer.given_up()).flatten();
            let given_up = answered.max(self.attempts.given_up());
            let (is_stuck, reason) = match &self.unsent {
                Some(SendRefusal::Unanswered(answer)) => (answer.is_stuck, answer.reason.clone()),
                Some(SendRefusal::Unprotected) => (true, UNPROTECTED.to_owned()),
                Some(SendRefusal::Unshown) | None => (answer.is_stuck(), answer.reason()),
            };
            let unresolved = Unresolved {
                attempts: self.attempts.made(),
                in_journal: self.in_journal,
                key,
                given_up,
                is_stuck,
                reason,
                unprotected: matches!(self.unsent, Some(SendRefusal::Unprotected)),
            };
            let mut status = answer.into_status();
            self.note(End::Unresolved(status.code()));
            status.set_source(Arc::new(unresolved));
            return Err(Box::new(status));
        }
        let status = answer.headers().and_then(IdempotencyStatus::of);
        if answer.has_succeeded() {
            self.note(End::Answered);
        } else {
            self.note(End::Failed);
        }
        let is_processing = status == Some(IdempotencyStatus::Processing);
        let attempt_timeout = self.shared.settings.attempt_timeout;
        let last = is_processing.then(|| last_replay_or_untold(&answer, attempt_timeout));
        let mut response = answer.into_response()?;
        let delivery = Delivery { attempts: self.attempts.made(), replayed: was_replayed(response.headers()) };
        if delivery != Delivery::AT_ONCE {
            response.extensions_mut().insert(delivery);
        }
        if let (Some(last), Some(key)) = (last, self.head.key()) {
            let answered = AnsweredCall {
                attempt_timeout,
                last,
                key: key.to_owned(),
                head: self.head,
                message: self.message,
                peer: self.peer,
            };
            response.extensions_mut().insert(Arc::new(answered));
        }
        Ok(response)
    }

    fn note(&self, end: End) {
        self.telemetry.ended(end, self.attempts.made(), self.attempts.took(), self.head.key());
    }

    fn attempt(&self, sent: S::Future) -> AttemptFuture<S::Future, B> {
        AttemptFuture::new(sent, self.shared.settings.max_response_bytes)
    }

    /// Makes one more attempt. Returns `None` if the operation has no time left for it.
    async fn send(&self, before: u32) -> Option<AttemptOutcome> {
        self.bounded(self.peer.send_before(self.attempts.deadline(), self.request(before))).await
    }

    fn request(&self, before: u32) -> Request<Body> {
        let left = self.attempts.deadline().left();
        self.head.attempt(Body::new(Full::new(self.message.clone())), before, left)
    }

    /// Ends an attempt when its time is over.
    async fn bounded<T: From<AttemptOutcome>>(&self, attempt: impl Future<Output = T>) -> T {
        timeout_at(self.attempts.end(&self.shared.settings), attempt).await.unwrap_or(AttemptOutcome::TimedOut.into())
    }
}

/// The name of the reason for the log.
const UNPROTECTED: &str = "a procedure that the server does not protect";

/// The result of a first attempt and, perhaps, a second one beside it.
struct RaceOutcome {
    answer: AttemptOutcome,
    /// The number of attempts.
    made: u32,
    /// When the attempt without the answer was given up, if it may be under way.
    given_up: Option<Instant>,
}

impl RaceOutcome {
    fn of_one(answer: AttemptOutcome) -> Self {
        Self { answer, made: 1, given_up: None }
    }

    fn of_two(answer: AttemptOutcome, given_up: Option<Instant>) -> Self {
        Self { answer, made: 2, given_up }
    }
}

/// The status of a call that the journal has not written in time.
fn unwritten() -> Status {
    Status::deadline_exceeded("the journal was not written in time; the call was not sent, and may be sent later")
}
