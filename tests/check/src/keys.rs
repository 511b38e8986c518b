//! Idempotency keys: a call claims its key, runs, and records its answer.

use std::time::Duration;

use axum::{
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use bytes::Bytes;
use http::{HeaderValue, header::AUTHORIZATION, request::Parts};
use http_body_util::BodyExt as _;
use tokio::sync::watch;
use tonic::Status;

use crate::{
    fault::{Fault, Faults},
    hash, key,
    record::{self, Guard, Record, Turn},
    refusal::Refusal,
    store::{Entry, Store},
};

/// The paths of what takes keys.
const SERVICE: &str = "/check.v1.Shop/";

/// When a replay comes that is late.
const LATE: Duration = Duration::from_secs(60);

#[derive(Clone)]
pub(crate) struct Keys {
    store: Store,
    faults: Faults,
}

/// The turn that a call has.
enum Claim {
    First(watch::Sender<Option<Record>>),
    Replay(Record),
    /// To answer as the running call does.
    Follow(watch::Receiver<Option<Record>>),
    Refused(Refusal),
}

impl Keys {
    pub(crate) fn new(store: Store, faults: Faults) -> Self {
        Self { store, faults }
    }
}

pub(crate) async fn keyed(State(keys): State<Keys>, request: Request, next: Next) -> Response {
    let (call, body) = request.into_parts();
    let id = key::of(&call, keys.faults);
    match id {
        _ if !call.uri.path().starts_with(SERVICE) && keys.faults.has(Fault::ReflectionEchoesToken) => {
            refuse_with_token(&call)
        }
        _ if !call.uri.path().starts_with(SERVICE) => next.run(Request::from_parts(call, body)).await,
        Ok(Some(id)) => keys.answer(id, call, body, next).await,
        Ok(None) => {
            let mut response = next.run(Request::from_parts(call, body)).await;
            if keys.faults.has(Fault::HeadersWithoutKey) {
                response.headers_mut().insert("idempotency-status", HeaderValue::from_static("completed"));
            }
            response
        }
        Err(refusal) => refusal.respond(keys.faults),
    }
}

impl Keys {
    async fn answer(self, id: String, call: Parts, body: Body, next: Next) -> Response {
        let early = self.faults.has(Fault::ReservesAtHeaders).then(|| self.claim(&id, &call, None));
        let hash = match body.collect().await {
            Ok(body) => {
                let body = body.to_bytes();
                hash::of(&call, &body, self.faults).map(|hash| (hash, body))
            }
            Err(_) => None,
        };
        let Some((hash, body)) = hash else { return Refusal::Malformed.respond(self.faults) };
        let claim = match early {
            Some(first @ Claim::First(_)) => first,
            _ => self.claim(&id, &call, Some(&hash)),
        };
        match claim {
            Claim::First(done) => self.run(id, hash, done, call, body, next).await,
            Claim::Replay(_) if self.faults.has(Fault::EchoesToken) => refuse_with_token(&call),
            Claim::Replay(_) if self.faults.has(Fault::ReplaysHalf) => record::bare(b"\0\0\0\0\x40half"),
            Claim::Replay(_) if self.faults.has(Fault::ReplaysGarbage) => record::bare(b"\xff\0garbage"),
            Claim::Replay(record) => {
                if self.faults.has(Fault::ReplaysLate) {
                    tokio::time::sleep(LATE).await;
                }
                self.replay(id, &record)
            }
            Claim::Follow(mut running) => {
                let record = running.wait_for(Option::is_some).await.ok().and_then(|record| record.clone());
                match record {
                    Some(record) => self.replay(id, &record),
                    None => Refusal::InProgress.respond(self.faults),
                }
            }
            Claim::Refused(Refusal::InProgress) if self.faults.has(Fault::EmptyInProgress) => record::empty(),
            Claim::Refused(refusal) => refusal.respond(self.faults),
        }
    }

    fn replay(self, id: String, record: &Record) -> Response {
        let (store, faults) = (self.store, self.faults);
        record.answer(Turn::Replay, faults, move || store.free(&id))
    }

    fn claim(&self, id: &str, call: &Parts, hash: Option<&[u8]>) -> Claim {
        let procedure = call.uri.path();
        let is_other_procedure = |other: &str| other != procedure && !self.faults.has(Fault::NoProcedure);
        let is_other_request =
            |other: &Option<Vec<u8>>| other.is_some() && other.as_deref() != hash && !self.faults.has(Fault::NoHash);
        self.store.look(id, |entry| {
            let known = entry.take().filter(|entry| !entry.is_expired(self.faults));
            let (claim, next) = match known {
                None => {
                    let (done, running) = watch::channel(None);
                    let (procedure, hash) = (procedure.to_owned(), hash.map(<[u8]>::to_vec));
                    let reserved = Entry::Running { procedure, hash, done: running };
                    let is_reserved = !self.faults.has(Fault::CacheThenRun);
                    (Claim::First(done), is_reserved.then_some(reserved))
                }
                Some(Entry::Running { procedure, hash, done }) => {
                    let claim = if is_other_procedure(&procedure) {
                        Claim::Refused(Refusal::OtherProcedure)
                    } else if !is_other_request(&hash) {
                        Claim::Refused(Refusal::InProgress)
                    } else if self.faults.has(Fault::HashAtEnd) {
                        Claim::Follow(done.clone())
                    } else {
                        Claim::Refused(Refusal::OtherRequest)
                    };
                    (claim, Some(Entry::Running { procedure, hash, done }))
                }
                Some(Entry::Done(record)) if is_other_procedure(&record.procedure) => {
                    (Claim::Refused(Refusal::OtherProcedure), Some(Entry::Done(record)))
                }
                Some(Entry::Done(record)) if is_other_request(&record.hash) => {
                    let is_kept = !self.faults.has(Fault::MismatchEvicts) && record.is_success();
                    (Claim::Refused(Refusal::OtherRequest), is_kept.then_some(Entry::Done(record)))
                }
                Some(Entry::Done(record)) => (Claim::Replay(record.clone()), Some(Entry::Done(record))),
            };
            *entry = next;
            claim
        })
    }

    /// Runs the handler to its end, whether its caller waits or not.
    async fn run(
        self,
        id: String,
        hash: Vec<u8>,
        done: watch::Sender<Option<Record>>,
        call: Parts,
        body: Bytes,
        next: Next,
    ) -> Response {
        let procedure = call.uri.path().to_owned();
        let Self { store, faults } = self.clone();
        let mut hung_up = {
            let (store, id) = (store.clone(), id.clone());
            Guard(faults.has(Fault::FreedOnHangUp).then_some(move || store.free(&id)))
        };
        let ran = {
            let (store, id) = (store.clone(), id.clone());
            tokio::spawn(async move {
                let response = next.run(Request::from_parts(call, Body::from(body))).await;
                let record = Record::of(&procedure, Some(hash), response).await;
                if record.is_success() || faults.has(Fault::ErrorKeptOnce) {
                    store.complete(&id, &record);
                } else {
                    store.free(&id);
                }
                done.send_replace(Some(record.clone()));
                record
            })
        };
        let record = ran.await;
        hung_up.0 = None;
        match record {
            Ok(record) => record.answer(Turn::First, faults, move || store.free(&id)),
            Err(_) => Status::internal("the handler panicked").into_http(),
        }
    }
}

fn refuse_with_token(call: &Parts) -> Response {
    let token = call.headers.get(AUTHORIZATION).and_then(|token| token.to_str().ok()).unwrap_or_default();
    Status::internal(format!("no answer for {token}")).into_http()
}
