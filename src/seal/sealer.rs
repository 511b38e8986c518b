//! Seals the records of calls with the keys of a ring, and opens them.

use std::{panic::AssertUnwindSafe, time::Duration};

use bytes::Bytes;
use futures_util::{FutureExt as _, future::BoxFuture};
use protobuf_canonical::{RequestHash, RequestHashes};
use tokio::time::timeout;
use tonic_idempotency_wire::seal::{self, Key};

use super::{
    content,
    key_ring::{DynKeyRing, HashKeys, KeyError, KeyRing},
    subject::Subject,
};
use crate::{
    grpc::{envelope_of_error, error_with_envelope, error_without_content},
    store::StoredResponse,
};

/// How long a ring may take.
const TIME: Duration = Duration::from_secs(5);

/// The first input of the HMAC of a request's hash.
const DOMAIN: &[u8] = b"tonic-idempotency request hash v1";

/// Seals the records of calls with the keys of a ring, and opens them.
pub(crate) struct Sealer {
    ring: Box<dyn DynKeyRing>,
    seals: bool,
}

/// The keys of a call, got before it claims its key.
#[derive(Clone, Debug)]
pub(crate) struct CallKeys {
    /// `None`: its response is not stored.
    current: Option<Key>,
    /// `None` for a recovery, which knows the recorded hashes.
    of_hashes: Option<HashKeys>,
}

impl Sealer {
    /// Opens records, and makes sealed ones if it `seals`.
    pub(crate) fn new(ring: impl KeyRing, seals: bool) -> Self {
        Self { ring: Box::new(ring), seals }
    }

    /// Gets the keys of a call; `None` if its record is made without.
    pub(crate) async fn keys(&self, subject: Subject<'_>) -> Result<Option<CallKeys>, KeyError> {
        if !self.seals {
            return Ok(None);
        }
        let current = ask(self.ring.current(subject.caller)).await?;
        let of_hashes = match subject.caller {
            Some(_) => Some(ask(self.ring.hash_keys()).await?),
            None => None,
        };
        Ok(Some(CallKeys { current, of_hashes }))
    }

    /// Returns the further hashes that a record of the same request may have: `keys` are those of the call, and the hashes of a new record are
    /// not among them.
    pub(crate) async fn other_hashes(
        &self,
        subject: Subject<'_>,
        keys: Option<&CallKeys>,
        plain: &RequestHashes,
    ) -> Result<Vec<RequestHashes>, KeyError> {
        if subject.caller.is_none() {
            return Ok(Vec::new());
        }
        let first = keys.map(|keys| keys.hashes(subject, plain));
        // Asked for once more: a key may have come, and be current elsewhere, since the call got its own.
        let known = ask(self.ring.hash_keys()).await?;
        let others = [known.current()].into_iter().chain(known.others()).map(|key| tagged(key, subject, plain));
        let plain = first.is_some().then(|| plain.clone());
        Ok(others.filter(|hashes| Some(hashes) != first.as_ref()).chain(plain).collect())
    }

    /// Opens a response that is sealed, or says why it can never be read.
    pub(crate) async fn open(
        &self,
        subject: Subject<'_>,
        response: &StoredResponse,
    ) -> Result<Result<StoredResponse, String>, KeyError> {
        let (kind, envelope) = match response {
            StoredResponse::Sealed(envelope) => (Kind::Response, Some(envelope.clone())),
            StoredResponse::Error(error) => (Kind::Error, envelope_of_error(error)),
            StoredResponse::Message(_) | StoredResponse::NotStored => (Kind::Response, None),
        };
        let Some(envelope) = envelope else { return Ok(Ok(response.clone())) };
        let (Some(id), Some(caller)) = (seal::id_of(&envelope), subject.caller) else {
            return Ok(Err(seal::NotOpened::Malformed.to_string()));
        };
        let Some(key) = ask(self.ring.named(caller, id)).await? else {
            return Ok(Err("its key is destroyed".to_owned()));
        };
        Ok(match (kind, seal::open(&key, &context(&subject, kind), &envelope)) {
            (Kind::Error, Ok(error)) => Ok(StoredResponse::Error(error.into())),
            (Kind::Response, Ok(text)) => {
                content::decode(text.into()).map(StoredResponse::Message).map_err(|error| error.to_string())
            }
            (_, Err(error)) => Err(error.to_string()),
        })
    }
}

impl CallKeys {
    /// Returns the hashes of a new record.
    pub(crate) fn hashes(&self, subject: Subject<'_>, plain: &RequestHashes) -> RequestHashes {
        match &self.of_hashes {
            Some(keys) => tagged(keys.current(), subject, plain),
            None => plain.clone(),
        }
    }

    /// Seals a response. A kept error keeps its code.
    pub(crate) fn seal(&self, subject: Subject<'_>, response: StoredResponse) -> StoredResponse {
        let seal = |kind, text: &[u8]| {
            let key = self.current.as_ref()?;
            Some(Bytes::from(seal::seal(key, &context(&subject, kind), text)))
        };
        match response {
            StoredResponse::Message(message) => {
                let envelope = seal(Kind::Response, &content::encode(&message));
                envelope.map_or(StoredResponse::NotStored, StoredResponse::Sealed)
            }
            StoredResponse::Error(error) => StoredResponse::Error(match seal(Kind::Error, &error) {
                Some(envelope) => error_with_envelope(&error, envelope),
                None => error_without_content(&error, "its content was not stored"),
            }),
            response @ (StoredResponse::NotStored | StoredResponse::Sealed(_)) => response,
        }
    }
}

/// The kind of what is sealed.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// All of a kept error.
    Error,
    /// A response message with its metadata.
    Response,
}

/// The parts that an envelope belongs to. Not the request's hash: it differs between versions of a schema.
fn context<'a>(subject: &'a Subject<'_>, kind: Kind) -> [&'a [u8]; 4] {
    let kind: &[u8] = match kind {
        Kind::Error => b"error",
        Kind::Response => b"response",
    };
    [subject.owner.as_uuid().as_bytes(), subject.key.as_uuid().as_bytes(), subject.procedure.as_bytes(), kind]
}

/// The HMACs of a request's hashes.
fn tagged(key: &Key, subject: Subject<'_>, plain: &RequestHashes) -> RequestHashes {
    let of = |hash: &RequestHash| {
        let Subject { owner, key: of_call, .. } = subject;
        let parts = [DOMAIN, owner.as_uuid().as_bytes(), of_call.as_uuid().as_bytes(), hash.as_bytes()];
        RequestHash::from(key.tag(&parts))
    };
    RequestHashes::new(of(plain.canonical()), plain.as_arrived().map(of))
}

/// Waits for a ring. One that panics or takes too long cannot be asked.
async fn ask<T>(asked: BoxFuture<'_, Result<T, KeyError>>) -> Result<T, KeyError> {
    match timeout(TIME, AssertUnwindSafe(asked).catch_unwind()).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_panic)) => Err("the key ring panicked".into()),
        Err(_) => Err("the key ring took too long".into()),
    }
}
