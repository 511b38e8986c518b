//! Sends the entries that an earlier process has left, or whose outcome is unknown.

use std::{future::poll_fn, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{Request, Response};
use http_body::Body as HttpBody;
use prost::Message;
use tonic::{Status, body::Body, metadata::MetadataMap};
use tower_service::Service;

use super::{
    Caller, Entry, JournalError, Lane,
    held::Held,
    index::{Slot, Taken},
    inner::Inner,
};
use crate::{
    BoxError, Delivery, OperationKey,
    answer::{Answer, Attempt},
    captured::HEAD,
    telemetry::resumed,
    verdict::Verdict,
};

/// Marks a request of an entry, so that the layer does not write it down again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FromJournal;

/// An entry that was resumed, and its outcome.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Resumed {
    /// The key.
    pub key: OperationKey,
    /// Its lane, if it has one.
    pub lane: Option<Lane>,
    /// The outcome of sending it.
    pub outcome: Outcome,
    /// The path of the procedure.
    pub procedure: String,
    /// The encoded message of the call; empty if the entry could not be read.
    pub request: Bytes,
    /// Its [`Caller`], if it has one.
    pub caller: Option<Caller>,
}

/// The outcome of sending an entry.
///
/// | outcome | the entry |
/// |---|---|
/// | [`Answered`](Self::Answered) | has ended |
/// | [`Failed`](Self::Failed) | stays until it is [sent again](super::Journal::send_again) or [given up](super::Journal::give_up); with [`on_outcome`](super::JournalBuilder::on_outcome) it has ended |
/// | [`Behind`](Self::Behind), [`Unresolved`](Self::Unresolved) | is sent again by the next [`resume`](super::Journal::resume), or by the [`Worker`](super::Worker) |
/// | [`Expired`](Self::Expired) | stays until it is [given up](super::Journal::give_up), and is not sent |
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// The operation has succeeded. If it had done so before, this is the replay.
    Answered(Reply),
    /// An earlier entry of its lane has not ended, so that this one was not sent.
    Behind,
    /// It was not sent, because its key may no longer protect: it could happen twice. Ask the service whether the operation took effect.
    Expired {
        /// The time since it was written.
        age: Duration,
    },
    /// The operation has failed, and no retry can change that.
    Failed(Status),
    /// Its outcome is unknown. Holds the last answer.
    Unresolved(Status),
}

/// The response of an operation that was resumed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reply {
    /// How it came about.
    pub delivery: Delivery,
    /// The encoded message.
    pub message: Bytes,
    /// The headers.
    pub metadata: MetadataMap,
}

impl Reply {
    /// Decodes the message.
    ///
    /// # Errors
    ///
    /// The message is not of this type.
    pub fn decode<T: Message + Default>(&self) -> Result<T, prost::DecodeError> {
        T::decode(self.message.clone())
    }
}

impl Resumed {
    fn new(slot: Slot, request: Bytes, outcome: Outcome) -> Self {
        let Slot { key, lane, procedure, caller, .. } = slot;
        Self { key, lane, outcome, procedure, request, caller }
    }
}

/// Sends each entry once, unless it is being sent already. Entries of one lane are sent in their order.
pub(super) async fn all<S, B>(journal: &Arc<Inner>, service: &S) -> Vec<Resumed>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone,
    S::Error: Into<BoxError>,
    B: HttpBody<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let lanes = stream::iter(journal.index.by_lane());
    let sent = lanes.map(|ids| in_order(journal, ids, service)).buffer_unordered(journal.settings.parallelism);
    let mut resumed: Vec<_> = sent.collect::<Vec<_>>().await.into_iter().flatten().collect();
    resumed.sort_by_key(|(id, _)| *id);
    resumed.into_iter().map(|(_, resumed)| resumed).collect()
}

async fn in_order<S, B>(journal: &Arc<Inner>, ids: Vec<u64>, service: &S) -> Vec<(u64, Resumed)>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone,
    S::Error: Into<BoxError>,
    B: HttpBody<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let mut resumed = Vec::new();
    for id in ids {
        // `None` if the entry has ended, or was given up, meanwhile.
        if let Some(outcome) = one(journal, id, journal.index.take(id), service.clone()).await {
            resumed.push((id, outcome));
        }
    }
    resumed
}

/// Sends an entry that was taken, and returns its outcome; `None` if it has ended, or was given up.
pub(super) async fn one<S, B>(journal: &Arc<Inner>, id: u64, taken: Taken, service: S) -> Option<Resumed>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: HttpBody<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let (slot, is_old) = match taken {
        Taken::Busy(slot) => return Some(Resumed::new(slot, request_of(journal, id).await, Outcome::Behind)),
        Taken::Expired(slot) => (slot, true),
        Taken::Gone => return None,
        Taken::ToSend(slot) => (slot, false),
    };
    // Releases the entry, however this ends.
    let held = (!is_old).then(|| Held::new(id, Arc::clone(journal), true));
    let entry = match journal.read(id).await {
        Ok(Some(entry)) => entry,
        // It has been given up.
        Ok(None) => return None,
        Err(error) => return Some(Resumed::new(slot, Bytes::new(), Outcome::Unresolved(unreadable(&error)))),
    };
    let Some(held) = held else {
        let age = entry.age();
        tracing::warn!(key = %entry.key, entry.procedure, ?age, "a journaled operation is too old to be sent");
        resumed(&entry.procedure, "expired");
        let expired = Resumed::new(slot, entry.message(), Outcome::Expired { age });
        tell(journal, &expired).await;
        return Some(expired);
    };
    let answer = send(&entry, service).await;
    let delivery = answer.delivery();
    // An answer that does not end the operation is an error then. The service may be without the layer.
    if answer.verdict(true) == Verdict::Ended {
        let ended = Resumed::new(slot, entry.message(), outcome(answer, delivery));
        // First the one, then the other: an application that dies here is told again.
        let is_told = tell(journal, &ended).await;
        match &ended.outcome {
            Outcome::Failed(error) => {
                resumed(&entry.procedure, "failed");
                tracing::warn!(key = %entry.key, entry.procedure, code = ?error.code(), error = error.message(), is_told,
                    "a journaled operation has failed; it stays in the journal, unless on_outcome is told of it");
                if is_told { held.end() } else { held.fail(entry, error.clone()).await }
            }
            _ => {
                resumed(&entry.procedure, "answered");
                held.end();
            }
        }
        return Some(ended);
    }
    let request = entry.message();
    resumed(&entry.procedure, "unresolved");
    if answer.is_unauthenticated() {
        journal.tell_of_credentials(&entry.procedure);
        held.leave_for_long(entry, &answer, delivery.attempts);
    } else {
        held.leave(entry, &answer, delivery.attempts);
    }
    Some(Resumed::new(slot, request, Outcome::Unresolved(answer.into_status())))
}

/// Reads the message of an entry that is not sent.
async fn request_of(journal: &Inner, id: u64) -> Bytes {
    journal.read(id).await.ok().flatten().map(|entry| entry.message()).unwrap_or_default()
}

/// Calls `on_outcome`, and returns whether it is set.
async fn tell(journal: &Inner, resumed: &Resumed) -> bool {
    let Some(on_outcome) = &journal.settings.on_outcome else { return false };
    on_outcome(resumed.clone()).await;
    true
}

async fn send<S, B>(entry: &Entry, mut service: S) -> Answer
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: HttpBody<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    if let Err(error) = poll_fn(|cx| service.poll_ready(cx)).await {
        return Answer::Lost(error.into());
    }
    let mut request = entry.request();
    request.extensions_mut().insert(FromJournal);
    // The layer of the service has the limit.
    Attempt::new(service.call(request), usize::MAX).await
}

fn outcome(answer: Answer, delivery: Delivery) -> Outcome {
    match answer {
        Answer::Complete { parts, data }
            if data.status(&parts).is_some_and(|status| status.code() == tonic::Code::Ok) =>
        {
            let frame = data.into_bytes();
            let message = frame.slice(HEAD.min(frame.len())..);
            Outcome::Answered(Reply { delivery, message, metadata: MetadataMap::from_headers(parts.headers) })
        }
        answer => Outcome::Failed(answer.into_status()),
    }
}

fn unreadable(error: &JournalError) -> Status {
    Status::internal(format!("the entry cannot be read: {error}"))
}
