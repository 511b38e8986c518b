//! The attempts of one operation.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::{Either, select};
use http::{HeaderName, Request, Response};
use http_body::Body as HttpBody;
use http_body_util::Full;
use tokio::time::{sleep, timeout_at};
use tonic::body::Body;
use tonic_idempotency_wire::headers;
use tower_service::Service;

use crate::{
    BoxError, Delivery,
    answer::{Answer, Attempt, ResponseBody},
    head::Head,
    journal::{Entry, Journal, held::behind},
    service::Shared,
    settings::Attempts,
    verdict::Verdict,
};

const REPLAYED: HeaderName = HeaderName::from_static(headers::REPLAYED);

/// One operation, whose attempts all have the same key and message.
pub(crate) struct Operation<S> {
    /// What further attempts are made with.
    pub(crate) again: Arc<Mutex<S>>,
    pub(crate) attempts: Attempts,
    pub(crate) head: Head,
    /// The time after which a second attempt is made beside the first.
    pub(crate) hedge_after: Option<Duration>,
    pub(crate) message: Bytes,
    pub(crate) shared: Arc<Shared>,
}

impl<S, B> Operation<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone,
    S::Error: Into<BoxError>,
    B: HttpBody<Data = Bytes>,
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
        if timeout_at(self.attempts.deadline(), held.turn()).await.is_err() {
            let answer = held.settle(entry, Answer::Lost(Box::new(behind())), 0);
            return self.finish(answer);
        }
        let first = service.call(self.request());
        let answer = match self.hedge_after {
            None => self.bounded(Attempt::new(first)).await,
            Some(after) => {
                let (answer, made) = self.first_or_second(first, after).await;
                self.attempts.have_been(made);
                answer
            }
        };
        let answer = self.until_end(answer).await;
        let answer = held.settle(entry, answer, self.attempts.made());
        self.finish(answer)
    }

    async fn first_or_second(&self, sent: S::Future, after: Duration) -> (Answer, u32) {
        let first = pin!(self.bounded(Attempt::new(sent)));
        let first = match select(first, pin!(sleep(after))).await {
            Either::Left((answer, _)) => return (answer, 1),
            Either::Right(((), first)) => first,
        };
        if !self.shared.settings.spend() {
            return (first.await, 1);
        }
        let second = pin!(self.bounded(self.send()));
        let answer = match select(first, second).await {
            Either::Left((answer, second)) if answer.verdict() != Verdict::Final => second.await,
            Either::Right((answer, first)) if answer.verdict() != Verdict::Final => first.await,
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
        while let Some(pause) = self.attempts.next(answer.verdict(), &self.shared.settings) {
            sleep(pause).await;
            answer = self.bounded(self.send()).await;
        }
        answer
    }

    /// Returns the response of the last attempt.
    pub(crate) fn finish(&self, answer: Answer) -> Result<Response<ResponseBody<B>>, BoxError> {
        let mut response = answer.into_response()?;
        let replayed = response.headers().get(REPLAYED).is_some_and(|value| value == "true");
        let delivery = Delivery { attempts: self.attempts.made(), replayed };
        if delivery != Delivery::AT_ONCE {
            response.extensions_mut().insert(delivery);
        }
        Ok(response)
    }

    async fn send(&self) -> Answer {
        let mut service = self.again.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Err(error) = poll_fn(|cx| service.poll_ready(cx)).await {
            return Answer::Lost(error.into());
        }
        Attempt::new(service.call(self.request())).await
    }

    fn request(&self) -> Request<Body> {
        self.head.request(Body::new(Full::new(self.message.clone())))
    }

    /// Ends an attempt when its time is over.
    async fn bounded(&self, attempt: impl Future<Output = Answer>) -> Answer {
        timeout_at(self.attempts.end(&self.shared.settings), attempt).await.unwrap_or(Answer::TimedOut)
    }
}
