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
            sealed: None,
        };
        record.encode_to_vec().into()
    }

    /// Reads an entry. Of one that is sealed, it has what is in the open.
    pub(crate) fn decode(record: Bytes) -> Result<Self, BoxError> {
        let mut record = Record::decode(record)?;
        let sealed = record.sealed.take();
        let is_sealed = sealed.is_some();
        let record = sealed.map_or(record, Sealed::into_failed);
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
            is_sealed,
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
    Entry::decode(record.clone()).ok()?;
    let mut record = Record::decode(record.clone()).ok()?;
    let failure = record.sealed.as_mut().map_or(&mut record.failure, |sealed| &mut sealed.failure);
    failure.get_or_insert_with(Failure::damaged);
    Some(record.encode_to_vec().into())
}

/// An entry as it is stored. Times are in milliseconds.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Record {
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
    pub(super) failure: Option<Failure>,
    #[prost(enumeration = "Protection", tag = "12")]
    protection: i32,
    /// All of it. The other fields are not set then, so that a version that does not know this one cannot read the record.
    #[prost(message, optional, tag = "13")]
    pub(super) sealed: Option<Sealed>,
}

/// A sealed entry as it is stored: the envelope of its record, and what is in the open, so that the entry is listed, given up and found in a
/// damaged file without a key.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Sealed {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    procedure: String,
    #[prost(string, optional, tag = "3")]
    principal: Option<String>,
    #[prost(uint64, tag = "4")]
    written: u64,
    /// The number with which it was written.
    #[prost(uint64, tag = "5")]
    pub(super) number: u64,
    #[prost(bytes = "bytes", tag = "6")]
    pub(super) envelope: Bytes,
    /// Why it is not to be sent. Not part of what is sealed.
    #[prost(message, optional, tag = "7")]
    pub(super) failure: Option<Failure>,
}

impl Sealed {
    /// The open part of a record, without an envelope.
    #[cfg(feature = "seal")]
    pub(super) fn head(number: u64, record: Record) -> Self {
        let Record { key, uri, principal, written, .. } = record;
        let procedure = uri.parse::<Uri>().map(|uri| uri.path().to_owned()).unwrap_or_default();
        Self { key, procedure, principal, written, number, envelope: Bytes::new(), failure: None }
    }

    /// The context of the envelope: all that is in the open, but for the failure.
    #[cfg(feature = "seal")]
    pub(super) fn context(&self) -> Vec<u8> {
        Self { envelope: Bytes::new(), failure: None, ..self.clone() }.encode_to_vec()
    }

    /// The record as failed, without what is sealed.
    fn into_failed(self) -> Record {
        let Self { key, procedure, principal, written, failure, .. } = self;
        let failure = failure.or_else(|| Some(Failure::of(&Status::failed_precondition(NO_KEY))));
        Record { key, uri: procedure, principal, written, failure, ..Record::default() }
    }
}

#[cfg(feature = "seal")]
impl From<Sealed> for Record {
    fn from(sealed: Sealed) -> Self {
        Self { sealed: Some(sealed), ..Self::default() }
    }
}

/// The error of a sealed entry of a journal that has no keys.
const NO_KEY: &str = "it is sealed, and this journal has no key: see `JournalBuilder::seal`";

#[derive(Clone, PartialEq, prost::Message)]
struct Header {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Failure {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(bytes = "bytes", tag = "3")]
    details: Bytes,
}

impl Failure {
    /// The failure of a record that was found in a damaged file.
    #[cfg(any(feature = "redb", feature = "seal"))]
    pub(super) fn damaged() -> Self {
        let why = "it was found in a damaged journal: it may have ended already, or may never have been sent";
        Self::of(&Status::data_loss(why))
    }

    pub(super) fn of(status: &Status) -> Self {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// It sees nothing of a sealed record but that it has no fields, and must not send an empty message.
    #[test]
    fn a_version_that_does_not_know_sealed_records_reads_none() {
        assert!(Entry::decode(Record::default().encode_to_vec().into()).is_err());
    }
}
