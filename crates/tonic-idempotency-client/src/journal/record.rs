//! The stored form of an entry.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use prost::Message as _;
use tonic::{Code, Status};

#[cfg(feature = "redb")]
use super::entry::Identity;
use super::{
    Entry, EntryState, JournalError, Lane, Principal,
    entry::{Protection, milliseconds, since_epoch},
};
use crate::{BoxError, OperationKey};

impl Entry {
    pub(crate) fn encode(&self) -> Bytes {
        let headers = self
            .headers
            .iter()
            .map(|(name, value)| Header { name: name.to_string(), value: value.as_bytes().to_vec() });
        let record = Record {
            key: self.key.to_string(),
            uri: self.uri.to_string(),
            headers: headers.collect(),
            frame: self.frame.clone(),
            lane: self.lane.as_ref().map(ToString::to_string),
            principal: self.principal.as_ref().map(ToString::to_string),
            written: since_epoch(self.written),
            timeout: self.timeout.map(milliseconds),
            attempts: self.attempts,
            protected_until: self.protected_until.map(since_epoch),
            failure: self.error.as_ref().map(Failure::of),
            protection: self.protection.into(),
        };
        record.encode_to_vec().into()
    }

    pub(crate) fn decode(record: Bytes) -> Result<Self, BoxError> {
        let record = Record::decode(record)?;
        let protection = record.protection();
        let uri: Uri = record.uri.parse()?;
        let mut headers = HeaderMap::with_capacity(record.headers.len());
        for Header { name, value } in record.headers {
            headers.append(HeaderName::try_from(name)?, HeaderValue::from_maybe_shared(Bytes::from(value))?);
        }
        Ok(Self {
            attempts: record.attempts,
            error: record.failure.map(Failure::into_status),
            headers,
            key: OperationKey::from_header(&record.key).ok_or("an entry has no key")?,
            lane: record.lane.map(Lane::new),
            principal: record.principal.map(Principal::new),
            procedure: uri.path().to_owned(),
            protected_until: record.protected_until.map(moment),
            state: EntryState::Waiting,
            timeout: record.timeout.map(Duration::from_millis),
            written: moment(record.written),
            frame: record.frame,
            protection,
            uri,
        })
    }
}

/// Reads an entry of a store.
pub(crate) fn decode(id: u64, record: Bytes) -> Result<Entry, JournalError> {
    Entry::decode(record).map_err(|error| JournalError::store(format!("entry {id}"), error))
}

/// Returns the identity of a record's operation; `None` if the record cannot be read.
#[cfg(feature = "redb")]
pub(crate) fn identity(record: &Bytes) -> Option<Identity> {
    let entry = Entry::decode(record.clone()).ok()?;
    Some((entry.principal, entry.key))
}

/// The record as failed, as it was found in a damaged file; `None` if it cannot be read.
#[cfg(feature = "redb")]
pub(crate) fn of_a_damaged_file(record: &Bytes) -> Option<Bytes> {
    let mut entry = Entry::decode(record.clone()).ok()?;
    let why = "it was found in a damaged journal: it may have ended already, or may never have been sent";
    entry.error.get_or_insert_with(|| Status::data_loss(why));
    Some(entry.encode())
}

/// An entry as it is stored. Times are in milliseconds.
#[derive(Clone, PartialEq, prost::Message)]
struct Record {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    uri: String,
    #[prost(message, repeated, tag = "3")]
    headers: Vec<Header>,
    #[prost(bytes = "bytes", tag = "4")]
    frame: Bytes,
    #[prost(string, optional, tag = "5")]
    lane: Option<String>,
    #[prost(string, optional, tag = "6")]
    principal: Option<String>,
    #[prost(uint64, tag = "7")]
    written: u64,
    #[prost(uint64, optional, tag = "8")]
    timeout: Option<u64>,
    #[prost(uint32, tag = "9")]
    attempts: u32,
    #[prost(uint64, optional, tag = "10")]
    protected_until: Option<u64>,
    #[prost(message, optional, tag = "11")]
    failure: Option<Failure>,
    #[prost(enumeration = "Protection", tag = "12")]
    protection: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Header {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Failure {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(bytes = "bytes", tag = "3")]
    details: Bytes,
}

impl Failure {
    fn of(status: &Status) -> Self {
        let details = Bytes::copy_from_slice(status.details());
        Self { code: status.code().into(), message: status.message().to_owned(), details }
    }

    fn into_status(self) -> Status {
        Status::with_details(Code::from(self.code), self.message, self.details)
    }
}

fn moment(milliseconds: u64) -> SystemTime {
    UNIX_EPOCH.checked_add(Duration::from_millis(milliseconds)).unwrap_or(UNIX_EPOCH)
}
