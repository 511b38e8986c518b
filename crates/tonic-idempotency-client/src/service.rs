//! The service that gives calls their keys, and begins their attempts.

use std::{
    fmt,
    future::ready,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use http::{HeaderName, HeaderValue, Request, Response, request::Parts};
use http_body::Body as HttpBody;
use http_body_util::Full;
use tokio::time::timeout_at;
use tonic::{Status, body::Body};
use tonic_idempotency_wire::{grpc_timeout, headers};
use tower_service::Service;

use crate::{
    BoxError, OperationKey,
    attempt::{AttemptFuture, LastWord, ResponseBody},
    client_call::ClientCall,
    future::ResponseFuture,
    head::Head,
    journal::{FromJournal, Protection},
    key::NewKeys,
    peer::Peer,
    procedure::{MeasuredProcedure, Procedure},
    request_body::{HEAD, RequestBody},
    settings::Attempts,
    shared::Shared,
};

const KEY: HeaderName = HeaderName::from_static(headers::KEY);

/// A service whose calls of opted-in procedures have a key, and are sent again with it: see
/// [`IdempotencyClientLayer`](crate::IdempotencyClientLayer).
pub struct IdempotencyClient<S> {
    inner: S,
    /// The service that sends further attempts.
    peer: Arc<Peer<S>>,
    shared: Arc<Shared>,
}

impl<S: Clone> IdempotencyClient<S> {
    pub(crate) fn new(inner: S, shared: Arc<Shared>) -> Self {
        let peer = Peer::new(inner.clone(), shared.procedures.len(), shared.settings.max_response_bytes);
        Self { peer: Arc::new(peer), inner, shared }
    }
}

impl<S, B> Service<Request<Body>> for IdempotencyClient<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody<B>>;
    type Error = BoxError;
    type Future = ResponseFuture<S, S::Future, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Some(MeasuredProcedure { number, procedure, telemetry }) = self.shared.procedures.get(request.uri().path())
        else {
            return ResponseFuture::passed(self.inner.call(request));
        };
        let (mut parts, body) = request.into_parts();
        let mut message = match RequestBody::read(body, self.shared.settings.max_request_bytes) {
            RequestBody::Message(message) => message,
            RequestBody::Other(body) => {
                let own = parts.extensions.get().map(OperationKey::header_value).filter(|_| procedure.takes_key);
                let is_to_be_protected = own.is_some() || procedure.takes_key && self.shared.journal.is_some();
                if is_to_be_protected && !self.shared.settings.allows_unprotected {
                    let mut refused = unprotected(self.shared.settings.max_request_bytes).into_http();
                    refused.extensions_mut().insert(LastWord);
                    return ResponseFuture::again(ready(Ok(refused)));
                }
                if let (Some(own), false) = (own, parts.headers.contains_key(KEY)) {
                    parts.headers.insert(KEY, own);
                }
                self.shared.tell(parts.uri.path());
                return ResponseFuture::passed(self.inner.call(Request::from_parts(parts, body)));
            }
        };
        if procedure.takes_key {
            give_key(&mut parts, &mut message, procedure, &self.shared.new_keys);
        }
        let timeout = grpc_timeout(&parts.headers);
        let from_journal = parts.extensions.get::<FromJournal>().copied();
        let is_resumed = from_journal.is_some();
        let journal = self.shared.journal.as_ref().filter(|_| procedure.takes_key && !is_resumed);
        let journaled =
            journal.and_then(|journal| Some((journal.clone(), journal.entry(&parts, message.clone(), timeout)?)));
        let mut attempts = Attempts::new(&self.shared.settings, timeout);
        if let Some(sent) = from_journal {
            attempts.give_up(sent.given_up);
            attempts.end_by(sent.expires);
        }
        let call = ClientCall {
            attempts,
            head: Head::of(&parts),
            was_sent: is_resumed,
            in_journal: is_resumed,
            was_protected: from_journal.is_some_and(|sent| sent.protection == Protection::Seen),
            unsent: None,
            hedge_after: self.shared.settings.hedge_after.filter(|_| procedure.takes_key && procedure.waits),
            message: message.clone(),
            number: *number,
            peer: Arc::clone(&self.peer),
            shared: Arc::clone(&self.shared),
            telemetry: Arc::clone(telemetry),
        };
        let mut take_ready = || {
            let clone = self.inner.clone();
            std::mem::replace(&mut self.inner, clone)
        };
        if let Some(sent) = from_journal {
            return ResponseFuture::again(call.resumed(take_ready(), sent.protection));
        }
        if let Some((journal, entry)) = journaled {
            return ResponseFuture::again(call.journaled(take_ready(), journal, entry));
        }
        let first = self.inner.call(Request::from_parts(parts, Body::new(Full::new(message))));
        match call.hedge_after {
            None => {
                let end = call.attempts.end(&self.shared.settings);
                let limit = self.shared.settings.max_response_bytes;
                ResponseFuture::first(call, timeout_at(end, AttemptFuture::new(first, limit)))
            }
            Some(after) => ResponseFuture::again(call.hedged(first, after)),
        }
    }
}

impl<S: Clone> Clone for IdempotencyClient<S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), peer: Arc::clone(&self.peer), shared: Arc::clone(&self.shared) }
    }
}

impl<S> fmt::Debug for IdempotencyClient<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyClient").finish_non_exhaustive()
    }
}

/// The refusal of a call that its caller, or a journal, wants to be protected, and that cannot be.
fn unprotected(max_request_bytes: usize) -> Status {
    Status::resource_exhausted(format!(
        "the request is not one message of at most {max_request_bytes} bytes (max_request_bytes), so that it can neither be sent again nor be \
         written down; it was not sent"
    ))
}

/// Gives a request its key, in its head and, if the procedure has one, in its field: the caller's own, or a new one.
fn give_key(parts: &mut Parts, message: &mut Bytes, procedure: &Procedure, new_keys: &NewKeys) {
    let is_compressed = message.first() != Some(&0);
    let field = procedure.key_field.as_ref().filter(|_| !is_compressed);
    let in_field = field.and_then(|field| field.read(&message[HEAD..]));
    if !parts.headers.contains_key(KEY) {
        let own = parts.extensions.get().map(OperationKey::header_value);
        let own = own.or_else(|| HeaderValue::from_str(in_field.as_ref()?).ok());
        parts.headers.insert(KEY, own.unwrap_or_else(|| new_keys.make()));
    }
    if let (Some(field), None, Some(Ok(key))) = (field, in_field, parts.headers.get(KEY).map(HeaderValue::to_str)) {
        let mut framed = BytesMut::from(&message[..]);
        // In the header it may be in quotes, as RFC 8941 has strings.
        let bare = key.strip_prefix('"').and_then(|key| key.strip_suffix('"'));
        field.append(&mut framed, bare.unwrap_or(key));
        let length = u32::try_from(framed.len() - HEAD).unwrap_or(u32::MAX);
        framed[1..HEAD].copy_from_slice(&length.to_be_bytes());
        *message = framed.freeze();
    }
}
