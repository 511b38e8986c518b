//! An entry of the journal.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, Method, Request, Uri, Version, request::Parts};
use http_body_util::Full;
use serde_json::json;
use tonic::{Status, body::Body};
use tonic_idempotency_wire::headers;

use super::{Lane, Principal};
use crate::{OperationKey, request_body::HEAD};

/// The encodings that a client accepts in an answer. A resumed call accepts none, so that its answer can be read.
const ACCEPT: HeaderName = HeaderName::from_static("grpc-accept-encoding");

/// An operation that has not ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Entry {
    /// The number of attempts, without those of a process that died.
    pub attempts: u32,
    /// The error it failed with, if its state is [`Failed`](EntryState::Failed).
    pub error: Option<Status>,
    /// The headers that its attempts have, without credentials: see [`JournalBuilder::metadata`](super::JournalBuilder::metadata).
    pub headers: HeaderMap,
    /// The key.
    pub key: OperationKey,
    /// Its lane, if it has one.
    pub lane: Option<Lane>,
    /// The principal that it is sent as, if it has one.
    pub principal: Option<Principal>,
    /// The path of the procedure, such as `/shop.v1.Orders/Create`.
    pub procedure: String,
    /// When its key ceases to protect, if the server has said so.
    pub protected_until: Option<SystemTime>,
    /// Its state.
    pub state: EntryState,
    /// The timeout of the call each time it is sent, if its caller has set one.
    pub timeout: Option<Duration>,
    /// When it was written.
    pub written: SystemTime,
    /// The message in its frame.
    pub(crate) frame: Bytes,
    /// Whether it is sealed, and could not be opened: it has only its key, procedure, principal and time.
    pub(crate) is_sealed: bool,
    /// Whether its server has shown the layer.
    pub(crate) protection: Protection,
    pub(super) uri: Uri,
}

/// The identity of an entry: its principal and its key.
pub(crate) type Identity = (Option<Principal>, OperationKey);

/// The knowledge of whether the server of an entry has the layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum Protection {
    /// No answer has shown it to the process that has written the entry.
    Unknown = 0,
    /// An answer has shown it.
    Seen = 1,
    /// The application has the entry sent again without it.
    Waived = 2,
}

/// The state of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntryState {
    /// Its key may no longer protect it, so it is not sent.
    Expired,
    /// It was resumed and has failed, and no caller waited for it. It is only sent after [`send_again`](super::Journal::send_again), or when
    /// its call is made again with its key. Or it is sealed, and does not open: then it is not sent before its journal is opened with its key.
    Failed,
    /// This process is sending it.
    UnderWay,
    /// It waits to be resumed.
    Waiting,
}

impl Entry {
    /// Returns its age; zero if the clock has been set back.
    pub fn age(&self) -> Duration {
        SystemTime::now().duration_since(self.written).unwrap_or_default()
    }

    /// Returns the deadline of its first call, if the caller had set a timeout.
    pub fn deadline(&self) -> Option<SystemTime> {
        self.written.checked_add(self.timeout?)
    }

    /// Returns the encoded message. It is compressed if [`headers`](Self::headers) have `grpc-encoding`.
    pub fn message(&self) -> Bytes {
        self.frame.slice(HEAD.min(self.frame.len())..)
    }

    /// The entry of a request, without the headers that are not to be stored. The request has a key.
    pub(crate) fn of(
        parts: &Parts,
        frame: Bytes,
        timeout: Option<Duration>,
        stores: impl Fn(&HeaderName) -> bool,
    ) -> Option<Self> {
        let key = parts.headers.get(headers::KEY)?.to_str().ok()?;
        let stored = parts.headers.iter().filter(|(name, value)| !value.is_sensitive() && stores(name));
        Some(Self {
            attempts: 0,
            error: None,
            headers: stored.map(|(name, value)| (name.clone(), value.clone())).collect(),
            key: OperationKey::from_header(key)?,
            lane: parts.extensions.get().cloned(),
            principal: parts.extensions.get().cloned(),
            procedure: parts.uri.path().to_owned(),
            protected_until: None,
            state: EntryState::UnderWay,
            timeout,
            written: SystemTime::now(),
            frame,
            is_sealed: false,
            protection: Protection::Unknown,
            uri: parts.uri.clone(),
        })
    }

    /// The request of an attempt.
    pub(crate) fn request(&self) -> Request<Body> {
        let mut request = Request::new(Body::new(Full::new(self.frame.clone())));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.version_mut() = Version::HTTP_2;
        *request.headers_mut() = self.headers.clone();
        request.headers_mut().remove(ACCEPT);
        request.headers_mut().insert(headers::KEY, self.key.header_value());
        request.extensions_mut().insert(self.key.clone());
        if let Some(principal) = &self.principal {
            request.extensions_mut().insert(principal.clone());
        }
        if let Some(lane) = &self.lane {
            request.extensions_mut().insert(lane.clone());
        }
        request
    }

    /// Whether both are the same operation: the same procedure with the same message.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.procedure == other.procedure && self.frame == other.frame
    }

    /// The entry as one line of JSON.
    pub(crate) fn to_json(&self) -> String {
        let headers =
            self.headers.iter().map(|(name, value)| json!([name.as_str(), String::from_utf8_lossy(value.as_bytes())]));
        let json = json!({
            "attempts": self.attempts,
            "error": self.error.as_ref().map(|error| json!({ "code": i32::from(error.code()), "message": error.message() })),
            "headers": headers.collect::<Vec<_>>(),
            "key": self.key.to_string(),
            "lane": self.lane.as_ref().map(Lane::as_str),
            "message": BASE64_STANDARD.encode(self.message()),
            "principal": self.principal.as_ref().map(Principal::as_str),
            "procedure": self.procedure,
            "protectedUntil": self.protected_until.map(since_epoch),
            "state": self.state.as_str(),
            "timeout": self.timeout.map(milliseconds),
            "written": since_epoch(self.written),
        });
        json.to_string()
    }
}

impl EntryState {
    /// Returns the name in an [export](super::Journal::export).
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Failed => "failed",
            Self::UnderWay => "under_way",
            Self::Waiting => "waiting",
        }
    }
}

pub(super) fn since_epoch(time: SystemTime) -> u64 {
    milliseconds(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn is_read_as_it_was_written() {
        let (mut parts, ()) =
            Request::post("http://shop/shop.v1.Orders/Create").body(()).expect("a request").into_parts();
        for (name, value) in [(headers::KEY, "k-1"), ("x-tenant", "a"), ("x-tenant", "b"), ("authorization", "secret")]
        {
            parts.headers.append(name, HeaderValue::from_static(value));
        }
        let mut private = HeaderValue::from_static("secret");
        private.set_sensitive(true);
        parts.headers.insert("x-private", private);
        parts.extensions.insert(Lane::new("account-7"));
        parts.extensions.insert(Principal::new("alice"));
        let frame = Bytes::from_static(b"\0\0\0\0\x02hi");
        let stores = |name: &HeaderName| name != "authorization";
        let entry = Entry::of(&parts, frame, Some(Duration::from_secs(7)), stores).expect("a key");
        let read = Entry::decode(entry.encode()).expect("an entry");
        assert_eq!((read.message(), read.timeout), (Bytes::from_static(b"hi"), Some(Duration::from_secs(7))));
        let request = read.request();
        assert_eq!(request.uri(), "http://shop/shop.v1.Orders/Create");
        assert_eq!(request.headers().get_all("x-tenant").iter().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(request.headers().len(), 3, "{:?}", request.headers());
        assert_eq!(request.extensions().get::<Principal>(), Some(&Principal::new("alice")));
        assert!(read.to_json().contains(r#""lane":"account-7","message":"aGk=""#), "{}", read.to_json());
    }
}
