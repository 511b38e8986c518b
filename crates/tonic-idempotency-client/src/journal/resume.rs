//! Sends the entries that an earlier process has left, or whose outcome is unknown.

use std::{future::poll_fn, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use http::{Request, Response};
use http_body::Body as HttpBody;
use tokio::time::{Instant, timeout};
use tonic::{Code, Status, body::Body, metadata::MetadataMap};
use tonic_idempotency_wire::MAX_MESSAGE_BYTES;
use tower_service::Service;

use super::{
    Entry, EntryOutcome, JournalError, Reply, Resumed,
    entry::Protection,
    held_entry::{HeldEntry, too_late},
    index::{Slot, TakeOutcome},
    inner::Inner,
};
use crate::{
    BoxError, Delivery,
    attempt::{AttemptFuture, AttemptOutcome},
    description::{Description, ProcedureQuestion},
    expiry::Expiry,
    head::Head,
    permission::{MissingDescription, Permission, SendRefusal},
    request_body::HEAD,
    telemetry::resumed,
    verdict::{Others, Verdict},
};

/// The time that a server may take to say whether it protects a procedure.
const LONGEST_QUESTION: Duration = Duration::from_secs(10);

/// Marks a request of an entry, so that the layer does not write it down again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FromJournal {
    /// The time after which it is not sent any more.
    pub(crate) expires: Expiry,
    /// When its last attempt was given up that may be under way.
    pub(crate) given_up: Option<Instant>,
    pub(crate) protection: Protection,
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
pub(super) async fn one<S, B>(journal: &Arc<Inner>, id: u64, taken: TakeOutcome, service: S) -> Option<Resumed>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: HttpBody<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let (slot, is_old) = match taken {
        TakeOutcome::Busy(slot) => {
            return Some(Resumed::new(slot, request_of(journal, id).await, EntryOutcome::Behind));
        }
        TakeOutcome::Expired(slot) => (slot, true),
        TakeOutcome::Gone => return None,
        TakeOutcome::ToSend(slot) => (slot, false),
    };
    // Dropping `held` releases the entry, however this function ends.
    let held = (!is_old).then(|| HeldEntry::new(id, Arc::clone(journal), true));
    let entry = match journal.read(id).await {
        Ok(Some(entry)) => entry,
        // It has been given up.
        Ok(None) => return None,
        Err(error) => return Some(Resumed::new(slot, Bytes::new(), EntryOutcome::Unresolved(unreadable(&error)))),
    };
    let Some(held) = held else {
        let age = entry.age();
        tracing::warn!(key = %entry.key, entry.procedure, ?age, "a journaled operation is too old to be sent");
        resumed(&entry.procedure, "expired");
        let expired = Resumed::new(slot, entry.message(), EntryOutcome::Expired { age });
        tell(journal, &expired).await;
        return Some(expired);
    };
    let mut service = service;
    match asked(journal, &entry, &held, &mut service).await {
        Ok(()) => {}
        Err(SendRefusal::Unshown | SendRefusal::Unprotected) => {
            return Some(end(journal, held, slot, entry, EntryOutcome::Failed(without_protection())).await);
        }
        Err(SendRefusal::Unanswered(answer)) => return Some(unanswered(journal, held, slot, &entry, answer)),
    }
    if let Err(error) = held.use_waiver(&entry).await {
        held.put_back();
        return Some(Resumed::new(slot, entry.message(), EntryOutcome::Unresolved(error.status())));
    }
    let Some(answer) = send(&entry, &held, service).await else {
        held.put_back();
        return Some(Resumed::new(slot, entry.message(), EntryOutcome::Unresolved(too_late())));
    };
    let delivery = answer.delivery();
    // From here on, an answer that does not end the operation counts as an error. The service may be without the layer.
    if answer.is_last_word() || answer.verdict(Others::Over) == Verdict::Ended {
        return Some(end(journal, held, slot, entry, outcome(answer, delivery)).await);
    }
    let request = entry.message();
    resumed(&entry.procedure, "unresolved");
    if answer.is_unauthenticated() {
        journal.tell_of_credentials(&entry.procedure);
    }
    let (procedure, reason) = (entry.procedure.clone(), answer.reason());
    held.leave(entry, &answer, delivery.attempts, None);
    let status = answer.into_status();
    journal.tell_of_unresolved(&procedure, &reason, &status);
    Some(Resumed::new(slot, request, EntryOutcome::Unresolved(status)))
}

/// Ends an entry with this outcome, or leaves it as failed, unless a call with its key has to do so.
async fn end(journal: &Inner, held: HeldEntry, slot: Slot, entry: Entry, outcome: EntryOutcome) -> Resumed {
    let request = entry.message();
    if matches!(outcome, EntryOutcome::Failed(_)) && !held.is_alone() {
        // A call with its key waits for its own answer, or has given up an attempt meanwhile that may succeed.
        held.put_back();
        return Resumed::new(slot, request, EntryOutcome::Behind);
    }
    let ended = Resumed::new(slot, request, outcome);
    // The application is told before the entry ends: if it dies in between, it is told again.
    let told = tell(journal, &ended).await;
    if told == Telling::Panicked {
        held.put_back_for_long();
        return ended;
    }
    match &ended.outcome {
        EntryOutcome::Failed(error) => {
            resumed(&entry.procedure, "failed");
            // One that was not sent stays, as the application may have it sent.
            let stays = told == Telling::Unset || journal.permission(&entry) != Permission::Granted;
            tracing::warn!(key = %entry.key, entry.procedure, code = ?error.code(), error = error.message(), stays,
                "a journaled operation has failed");
            if stays { held.fail(entry, error.clone()).await } else { held.end_if_alone() }
        }
        _ => {
            resumed(&entry.procedure, "answered");
            held.end();
        }
    }
    ended
}

/// Reads the message of an entry that is not sent.
async fn request_of(journal: &Inner, id: u64) -> Bytes {
    journal.read(id).await.ok().flatten().map(|entry| entry.message()).unwrap_or_default()
}

/// The result of telling the application of an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Telling {
    Done,
    Panicked,
    /// There is no callback.
    Unset,
}

/// Calls `on_outcome`, if it is set.
async fn tell(journal: &Inner, resumed: &Resumed) -> Telling {
    let Some(on_outcome) = &journal.settings.on_outcome else { return Telling::Unset };
    let call = async { on_outcome(resumed.clone()).await };
    if AssertUnwindSafe(call).catch_unwind().await.is_ok() {
        return Telling::Done;
    }
    let Resumed { key, procedure, .. } = resumed;
    if let Some(attempts) = journal.rarely(procedure, "on_outcome") {
        tracing::error!(%key, procedure, attempts, "on_outcome has panicked; it is called again later, if the entry has not ended");
    }
    Telling::Panicked
}

/// Asks the server, if the journal requires it, whether it protects the procedure of an entry.
async fn asked<S, B>(journal: &Inner, entry: &Entry, held: &HeldEntry, service: &mut S) -> Result<(), SendRefusal>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: HttpBody<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let if_untold = match journal.permission(entry) {
        Permission::Granted => return Ok(()),
        Permission::Refused => return Err(SendRefusal::Unshown),
        Permission::ToBeAsked { if_untold } => if_untold,
    };
    let question = journal.question(&entry.procedure);
    let (head, _) = entry.request().into_parts();
    let sent = async {
        if let Err(error) = poll_fn(|cx| service.poll_ready(cx)).await {
            return AttemptOutcome::Lost(error.into());
        }
        let request = ProcedureQuestion::request(&Head::of(&head));
        AttemptFuture::new(service.call(request), MAX_MESSAGE_BYTES).await
    };
    let time = LONGEST_QUESTION.min(held.expires().left());
    let description = match timeout(time, question.ask(sent)).await {
        Ok(description) => description,
        Err(_) => AttemptOutcome::TimedOut.into(),
    };
    if matches!(description, Description::Protected) {
        journal.evidence.note(&entry.procedure, true);
    }
    description.permits(if_untold)
}

/// Leaves an entry whose server has not said whether it protects the procedure.
fn unanswered(journal: &Inner, held: HeldEntry, slot: Slot, entry: &Entry, answer: MissingDescription) -> Resumed {
    let MissingDescription { is_stuck, reason, status, .. } = answer;
    resumed(&entry.procedure, "unresolved");
    if status.code() == Code::Unauthenticated {
        journal.tell_of_credentials(&entry.procedure);
    }
    if is_stuck {
        held.put_back_for_long()
    } else {
        held.put_back()
    }
    journal.tell_of_unresolved(&entry.procedure, &reason, &status);
    Resumed::new(slot, entry.message(), EntryOutcome::Unresolved(status))
}

/// Sends an entry; `None` if it has expired meanwhile.
async fn send<S, B>(entry: &Entry, held: &HeldEntry, mut service: S) -> Option<AttemptOutcome>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: HttpBody<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    if let Err(error) = poll_fn(|cx| service.poll_ready(cx)).await {
        return Some(AttemptOutcome::Lost(error.into()));
    }
    let (expires, given_up) = (held.expires(), held.given_up());
    if expires.has_come() {
        return None;
    }
    let mut request = entry.request();
    request.extensions_mut().insert(FromJournal { expires, given_up, protection: entry.protection });
    // The layer of the service limits the size.
    Some(AttemptFuture::new(service.call(request), usize::MAX).await)
}

fn outcome(answer: AttemptOutcome, delivery: Delivery) -> EntryOutcome {
    match answer {
        AttemptOutcome::Complete { parts, data }
            if data.status(&parts).is_some_and(|status| status.code() == Code::Ok) =>
        {
            let frame = data.into_bytes();
            let message = frame.slice(HEAD.min(frame.len())..);
            EntryOutcome::Answered(Reply { delivery, message, metadata: MetadataMap::from_headers(parts.headers) })
        }
        answer => EntryOutcome::Failed(answer.into_status()),
    }
}

fn without_protection() -> Status {
    Status::failed_precondition(
        "the call was not sent: it may have been before, and its server does not say that it protects the procedure, so that it could run \
         twice; Journal::send_again sends it nevertheless",
    )
}

fn unreadable(error: &JournalError) -> Status {
    Status::internal(format!("the entry cannot be read: {error}"))
}
