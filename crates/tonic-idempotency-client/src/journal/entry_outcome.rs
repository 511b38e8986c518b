//! The outcome of an entry that was sent again.

use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use tonic::{Status, metadata::MetadataMap};

use super::{Lane, Principal, index::Slot};
use crate::{Delivery, OperationKey};

/// An entry that was resumed, and its outcome.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Resumed {
    /// The key.
    pub key: OperationKey,
    /// Its lane, if it has one.
    pub lane: Option<Lane>,
    /// The outcome of sending it.
    pub outcome: EntryOutcome,
    /// The principal that it is sent as, if it has one.
    pub principal: Option<Principal>,
    /// The path of the procedure.
    pub procedure: String,
    /// The encoded message of the call; empty if the entry could not be read.
    pub request: Bytes,
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
pub enum EntryOutcome {
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
    pub(super) fn new(slot: Slot, request: Bytes, outcome: EntryOutcome) -> Self {
        let Slot { key, lane, principal, procedure, .. } = slot;
        Self { key, lane, outcome, principal, procedure, request }
    }
}
