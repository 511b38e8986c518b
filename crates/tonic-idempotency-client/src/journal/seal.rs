//! A store whose records only the holder of a key reads.

use std::{collections::HashSet, sync::Arc};

use bytes::Bytes;
use prost::Message as _;
use tonic::Status;
use tonic_idempotency_wire::seal::{Key, NotOpened, id_of, open, seal};

use super::{
    Change, JournalError, JournalStore,
    record::{Failure, Record, Sealed},
};
use crate::BoxError;

/// The first part of the context of an envelope.
const DOMAIN: &[u8] = b"tonic-idempotency journal entry 1";

/// Seals the records of a store, each for its number. A record that does not open is read as failed; one in the open, as it is.
pub(crate) struct SealedStore {
    /// The first one seals, and all open.
    keys: Vec<Key>,
    store: Arc<dyn JournalStore>,
}

impl SealedStore {
    /// Seals with the first of these keys, and opens with all. Fails if two have the same id: only one of them would open.
    pub(crate) fn new(keys: Vec<Key>, store: Arc<dyn JournalStore>) -> Result<Self, JournalError> {
        let mut ids = HashSet::new();
        if let Some(twice) = keys.iter().find(|key| !ids.insert(key.id())) {
            let why = format!("two keys have the id \"{}\"", twice.id().escape_ascii());
            return Err(JournalError::store("(its keys)", why));
        }
        Ok(Self { keys, store })
    }

    fn sealed(&self, change: &Change) -> Result<Change, JournalError> {
        let (Change::Put { id, record }, Some(key)) = (change, self.keys.first()) else { return Ok(change.clone()) };
        let mut sealed = Record::decode(record.clone())
            .map(|record| Sealed::head(*id, record))
            .map_err(|error| JournalError::store(format!("entry {id}"), error))?;
        sealed.envelope = seal(key, &[DOMAIN, &sealed.context()], record).into();
        Ok(Change::Put { id: *id, record: Record::from(sealed).encode_to_vec().into() })
    }

    /// Opens a record. It has failed, too, if it was marked so without the key, or is not where it was written.
    fn open(&self, id: u64, sealed: &Sealed) -> Result<Record, BoxError> {
        let named = id_of(&sealed.envelope).ok_or(NotOpened::Malformed)?;
        let key = self.keys.iter().find(|key| key.id() == named);
        let key = key.ok_or_else(|| format!("the journal has no key with the id \"{}\"", named.escape_ascii()))?;
        let text = open(key, &[DOMAIN, &sealed.context()], &sealed.envelope)?;
        let mut record = Record::decode(Bytes::from(text))?;
        let moved = (sealed.number != id).then(Failure::damaged);
        record.failure = record.failure.or(sealed.failure.clone()).or(moved);
        Ok(record)
    }
}

impl JournalStore for SealedStore {
    fn commit(&self, changes: &[Change]) -> Result<(), JournalError> {
        let sealed: Vec<_> = changes.iter().map(|change| self.sealed(change)).collect::<Result<_, _>>()?;
        self.store.commit(&sealed)
    }

    fn ids(&self) -> Result<Vec<u64>, JournalError> {
        self.store.ids()
    }

    fn read(&self, id: u64) -> Result<Option<Bytes>, JournalError> {
        let Some(stored) = self.store.read(id)? else { return Ok(None) };
        let Some(mut sealed) = Record::decode(stored.clone()).ok().and_then(|record| record.sealed) else {
            return Ok(Some(stored));
        };
        let record = self.open(id, &sealed).unwrap_or_else(|error| {
            sealed.failure = Some(Failure::of(&Status::failed_precondition(format!("it does not open: {error}"))));
            Record::from(sealed)
        });
        Ok(Some(record.encode_to_vec().into()))
    }
}
