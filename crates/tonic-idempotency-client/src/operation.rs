//! The attempts of one operation.

use std::{pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::future::{Either, select};
use http::{HeaderMap, HeaderName, Request, Response};
use http_body::Body as HttpBody;
use http_body_util::Full;
use tokio::time::{sleep, timeout_at};
use tonic::body::Body;
use tonic_idempotency_wire::{IdempotencyStatus, headers};
use tower_service::Service;

use crate::{
    BoxError, Delivery, OperationKey, Unresolved,
    answer::{Answer, Attempt, ResponseBody},
    head::Head,
    journal::{Entry, Journal, held::behind},
    peer::Peer,
    pending::{Pending, expires_or_untold},
    service::Shared,
    settings::Attempts,
    verdict::Verdict,
};

const REPLAYED: HeaderName = HeaderName::from_static(headers::REPLAYED);

/// One operation, whose attempts all have the same key and message.
pub(crate) struct Operation<S> {
    pub(crate) attempts: Attempts,
    pub(crate) head: Head,
    /// Whether it may have been sent before, by this process or by an earlier one.
    pub(crate) was_sent: bool,
    /// Whether it is in the journal, and stays there unless it ends.
    pub(crate) in_journal: bool,
    /// The time after which a second attempt is made beside the first.
    pub(crate) hedge_after: Option<Duration>,
    pub(crate) message: Bytes,
    /// What further attempts are made with.
    pub(crate) peer: Arc<Peer<S>>,
    pub(crate) shared: Arc<Shared>,
}

impl<S, B> Operation<S>
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
        let (answer, made) = self.first_or_second(sent, after).await;
        self.attempts.have_been(made);
        let answer = self.until_end(answer).await;
        self.finish(answer)
    }

    /// Makes all attempts of an operation that is written down before the first one. The service is ready.
    pub(crate) async fn journaled(
        mut self,
        mut service: S,
        journal: Journal,
        entry: Entry,
    ) -> Result<Response<ResponseBody<B>>, BoxError> {
        let held = match journal.write(&entry).await {
            Ok(held) => held,
            Err(error) => return Ok(error.status().into_http()),
        };
        (self.was_sent, self.in_journal) = (held.was_sent(), true);
        if timeout_at(self.attempts.deadline(), held.turn()).await.is_err() {
            let answer = Answer::Lost(Box::new(behind()));
            held.leave(entry, &answer, 0);
            return self.finish(answer);
        }
        let first = service.call(self.request());
        let answer = match self.hedge_after {
            None => self.bounded(self.attempt(first)).await,
            Some(after) => {
                let (answer, made) = self.first_or_second(first, after).await;
                self.attempts.have_been(made);
                answer
            }
        };
        let answer = self.until_end(answer).await;
        match self.verdict(&answer) {
            Verdict::Ended => held.end(),
            _ => held.leave(entry, &answer, self.attempts.made()),
        }
        self.finish(answer)
    }

    async fn first_or_second(&self, sent: S::Future, after: Duration) -> (Answer, u32) {
        let first = pin!(self.bounded(self.attempt(sent)));
        let first = match select(first, pin!(sleep(after))).await {
            Either::Left((answer, _)) => return (answer, 1),
            Either::Right(((), first)) => first,
        };
        if !self.shared.settings.spend() {
            return (first.await, 1);
        }
        let second = pin!(self.bounded(self.send()));
        let answer = match select(first, second).await {
            Either::Left((answer, second)) if answer.verdict(true) != Verdict::Ended => second.await,
            Either::Right((answer, first)) if answer.verdict(true) != Verdict::Ended => first.await,
            Either::Left((answer, _)) | Either::Right((answer, _)) => answer,
        };
        (answer, 2)
    }

    /// Makes further attempts, the first of them after this pause.
    pub(crate) async fn again(mut self, pause: Duration) -> Result<Response<ResponseBody<B>>, BoxError> {
        sleep(pause).await;
        let answer = self.bounded(self.send()).await;
        let answer = self.until_end(answer).await;
        self.finish(answer)
    }

    /// Makes further attempts until the answer of one is the answer of the operation.
    async fn until_end(&mut self, mut answer: Answer) -> Answer {
        while let Some(pause) = self.attempts.next(self.verdict(&answer), &self.shared.settings) {
            sleep(pause).await;
            answer = self.bounded(self.send()).await;
        }
        answer
    }

    /// Returns what the answer of the last attempt means.
    pub(crate) fn verdict(&self, answer: &Answer) -> Verdict {
        answer.verdict(self.was_sent || self.attempts.are_several())
    }

    /// Returns the response of the last attempt, or the error of a call of which it is not known what became of it.
    pub(crate) fn finish(self, answer: Answer) -> Result<Response<ResponseBody<B>>, BoxError> {
        if self.verdict(&answer) != Verdict::Ended
            && let Some(key) = self.head.key().and_then(OperationKey::from_header)
        {
            let unresolved = Unresolved { attempts: self.attempts.made(), in_journal: self.in_journal, key };
            let mut status = answer.into_status();
            status.set_source(Arc::new(unresolved));
            return Err(Box::new(status));
        }
        let is_processing = answer.headers().and_then(IdempotencyStatus::of) == Some(IdempotencyStatus::Processing);
        let expires = is_processing.then(|| expires_or_untold(&answer));
        let mut response = answer.into_response()?;
        let delivery = Delivery { attempts: self.attempts.made(), replayed: was_replayed(response.headers()) };
        if delivery != Delivery::AT_ONCE {
            response.extensions_mut().insert(delivery);
        }
        if let (Some(expires), Some(key)) = (expires, self.head.key()) {
            let pending = Pending {
                attempt_timeout: self.shared.settings.attempt_timeout,
                expires,
                key: key.to_owned(),
                head: self.head,
                message: self.message,
                peer: self.peer,
            };
            response.extensions_mut().insert(Arc::new(pending));
        }
        Ok(response)
    }

    fn attempt(&self, sent: S::Future) -> Attempt<S::Future, B> {
        Attempt::new(sent, self.shared.settings.max_response_bytes)
    }

    async fn send(&self) -> Answer {
        self.peer.send(self.request()).await
    }

    fn request(&self) -> Request<Body> {
        self.head.request(Body::new(Full::new(self.message.clone())))
    }

    /// Ends an attempt when its time is over.
    async fn bounded(&self, attempt: impl Future<Output = Answer>) -> Answer {
        timeout_at(self.attempts.end(&self.shared.settings), attempt).await.unwrap_or(Answer::TimedOut)
    }
}

/// Returns whether these headers of a response say that it is that of an earlier attempt.
pub(crate) fn was_replayed(headers: &HeaderMap) -> bool {
    headers.get(REPLAYED).is_some_and(|value| value == "true")
}
