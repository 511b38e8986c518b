//! The keys of a run: all of them, and those that a server has at a time.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use tonic_idempotency::{
    Caller,
    seal::{HashKeys, Key, KeyError, KeyRing},
};
use tonic_idempotency_wire::seal;

use crate::{
    database::StoredRecord,
    ledger::Ledger,
    plan::{Away, Sealing},
    service::PLANNED,
    world::{Random, World},
};

/// All keys of a run.
#[derive(Clone, Debug)]
pub struct Keys {
    seed: u64,
    sealing: Arc<Sealing>,
}

/// A response as it is sealed.
#[derive(Clone, PartialEq, Message)]
struct Content {
    #[prost(bytes = "bytes", tag = "1")]
    message: Bytes,
    #[prost(bytes = "bytes", optional, tag = "2")]
    metadata: Option<Bytes>,
}

/// The field of a stored error that has its envelope.
#[derive(Clone, PartialEq, Message)]
struct ErrorInEnvelope {
    #[prost(bytes = "bytes", tag = "7")]
    envelope: Bytes,
}

impl Keys {
    /// Returns the keys of a seed.
    pub fn new(seed: u64, sealing: Sealing) -> Self {
        Self { seed, sealing: Arc::new(sealing) }
    }

    /// Returns the keys as a server has them.
    pub fn at(&self, server: usize, world: &World, ledger: &Ledger) -> Ring {
        Ring { keys: self.clone(), server, world: world.clone(), ledger: ledger.clone() }
    }

    fn sealing(&self, scope: u8, number: usize) -> Key {
        self.key(format!("{scope}/{number}"))
    }

    fn key(&self, id: String) -> Key {
        let mut random = Random::new(self.seed, &format!("key {id}"));
        Key::new(id, &[random.bytes(), random.bytes()].concat()).expect("a key of 32 bytes")
    }

    /// Opens a record, if it is sealed, and if its key opens it: whatever has become of that.
    pub(crate) fn open(&self, record: &mut StoredRecord) {
        let Some(envelope) = record.envelope() else { return };
        let kind: &[u8] = if record.state == "failed" { b"error" } else { b"response" };
        let parts = [record.owner.as_bytes(), record.key.as_bytes(), record.procedure.as_bytes(), kind];
        let Some((scope, number)) = named(&envelope) else { return };
        let Ok(text) = seal::open(&self.sealing(scope, number), &parts, &envelope) else { return };
        if record.state == "failed" {
            record.response = Some(text.into());
        } else if let Ok(Content { message, metadata }) = Content::decode(&*text) {
            (record.state, record.response, record.metadata) = ("completed", Some(message), metadata);
        }
    }
}

impl StoredRecord {
    /// Returns what is sealed of it, if it is.
    pub(crate) fn envelope(&self) -> Option<Bytes> {
        match self.state {
            "not_stored" => self.metadata.clone(),
            "failed" => envelope_of(self.response.as_ref()?),
            _ => None,
        }
    }
}

/// Returns the envelope of a stored error, if it has one.
pub(crate) fn envelope_of(error: &Bytes) -> Option<Bytes> {
    ErrorInEnvelope::decode(error.clone()).ok().map(|it| it.envelope).filter(|envelope| !envelope.is_empty())
}

/// Returns the scope and the number of the key that an envelope names.
pub(crate) fn named(envelope: &[u8]) -> Option<(u8, usize)> {
    parse(seal::id_of(envelope)?)
}

fn parse(id: &[u8]) -> Option<(u8, usize)> {
    let (scope, number) = std::str::from_utf8(id).ok()?.split_once('/')?;
    Some((scope.parse().ok()?, number.parse().ok()?))
}

/// The keys that a server has at the time.
#[derive(Clone, Debug)]
pub struct Ring {
    keys: Keys,
    server: usize,
    world: World,
    ledger: Ledger,
}

impl Ring {
    /// Waits until it can be asked, or says that it cannot.
    async fn answers(&self) -> Result<(), KeyError> {
        let now = self.world.time();
        let is_now =
            |absence: &crate::plan::Absence| absence.from <= now && now < absence.to && absence.is_at(self.server);
        let Some(absence) = self.keys.sealing.absences.iter().find(|it| is_now(it)) else { return Ok(()) };
        self.world.count("keys", &format!("{:?}", absence.kind));
        match absence.kind {
            Away::Fails => Err("the keys are away".into()),
            Away::Hangs => {
                tokio::time::sleep(absence.to - now).await;
                Ok(())
            }
            Away::Panics => panic!("{PLANNED}"),
        }
    }

    fn scope(&self, caller: &Caller) -> u8 {
        self.keys.sealing.scope(caller.scope.is_some().into())
    }

    fn is_destroyed(&self, scope: u8, number: usize) -> bool {
        let now = self.world.time();
        self.keys.sealing.destroyed(scope, number).any(|it| it.heard[self.server] <= now)
    }

    fn hash_key(&self, number: usize) -> Key {
        self.keys.key(format!("hash/{number}"))
    }
}

impl KeyRing for Ring {
    async fn current(&self, caller: Option<&Caller>) -> Result<Option<Key>, KeyError> {
        self.answers().await?;
        let Sealing { has_scopes, .. } = *self.keys.sealing;
        let scope = match caller {
            None if has_scopes => return Ok(None),
            None => 0,
            Some(caller) => self.scope(caller),
        };
        let number = self.keys.sealing.current(self.server, self.world.time());
        if self.is_destroyed(scope, number) {
            self.world.count("keys", "current is destroyed");
            self.ledger.lock().keyless.insert(scope);
            return Ok(None);
        }
        Ok(Some(self.keys.sealing(scope, number)))
    }

    async fn named(&self, caller: &Caller, id: &[u8]) -> Result<Option<Key>, KeyError> {
        self.answers().await?;
        let Some((scope, number)) = parse(id).filter(|(scope, _)| *scope == self.scope(caller)) else {
            return Err("the key is another scope's".into());
        };
        if self.is_destroyed(scope, number) {
            self.world.count("keys", "named is destroyed");
            return Ok(None);
        }
        if !self.keys.sealing.is_known(number, self.server, self.world.time()) {
            return Err("the key is not known".into());
        }
        Ok(Some(self.keys.sealing(scope, number)))
    }

    async fn hash_keys(&self) -> Result<HashKeys, KeyError> {
        self.answers().await?;
        let now = self.world.time();
        let Sealing { rotations, .. } = &*self.keys.sealing;
        let current = self.keys.sealing.current(self.server, now);
        let is_other = |number: &usize| *number != current && self.keys.sealing.is_known(*number, self.server, now);
        let others = (0..=rotations.len()).rev().filter(is_other);
        Ok(others.fold(HashKeys::new(self.hash_key(current)), |keys, number| keys.or(self.hash_key(number))))
    }
}
