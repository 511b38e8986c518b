//! The record that a store keeps of a key, for the assertions of a test.

use std::{fmt, time::Duration};

use bytes::Bytes;
use prost::Message;

use crate::{
    status::ResourceId,
    store::{ClaimOutcome, Replay, StoredResponse},
};

/// The record that a store keeps of a key, as the next call with the key would find it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Record {
    /// No record: the key is free.
    Absent,
    /// The call succeeded.
    #[non_exhaustive]
    Completed {
        /// The response message as it is stored, encoded: without the fields that are to be
        /// [redacted](crate::policy::ProcedureBuilder::redact).
        message: Bytes,
        /// The id of the resource that it created.
        resource: Option<ResourceId>,
        /// The time for which the record still lives, by the store's clock.
        expires_in: Duration,
    },
    /// The call ended with a final error.
    #[non_exhaustive]
    Failed {
        /// The time for which the record still lives, by the store's clock.
        expires_in: Duration,
    },
    /// The call succeeded, and its response is not stored.
    #[non_exhaustive]
    NotStored {
        /// The id of the resource that it created.
        resource: Option<ResourceId>,
        /// The time for which the record still lives, by the store's clock.
        expires_in: Duration,
    },
    /// The call succeeded, and only the holder of a key reads its response.
    #[non_exhaustive]
    Sealed {
        /// The id of the resource that it created.
        resource: Option<ResourceId>,
        /// The time for which the record still lives, by the store's clock.
        expires_in: Duration,
    },
    /// The key is of a call with another procedure or request, which this harness did not make.
    OfAnotherCall,
    /// A call holds the key.
    Reserved,
    /// A call held the key until its lease ended, or abandoned it, and left no outcome.
    Unknown,
}

impl Record {
    pub(super) fn of(replay: Replay) -> Self {
        let Replay { response, resource, expires_in, .. } = replay;
        match response {
            StoredResponse::Error(_) => Self::Failed { expires_in },
            StoredResponse::Message(stored) => Self::Completed { message: stored.message, resource, expires_in },
            StoredResponse::NotStored => Self::NotStored { resource, expires_in },
            StoredResponse::Sealed(_) => Self::Sealed { resource, expires_in },
        }
    }

    /// Returns the record that another call with the key finds.
    pub(super) fn found(outcome: ClaimOutcome) -> Self {
        match outcome {
            ClaimOutcome::Acquired => Self::Absent,
            ClaimOutcome::Replay(replay) => Self::of(replay),
            ClaimOutcome::InFlight { .. } => Self::Reserved,
            ClaimOutcome::Mismatch(_) => Self::OfAnotherCall,
            ClaimOutcome::OutcomeUnknown | ClaimOutcome::TakenOver => Self::Unknown,
        }
    }

    /// Asserts that the call succeeded, and returns its response message as it is stored: without the fields that are to be
    /// [redacted](crate::policy::ProcedureBuilder::redact).
    ///
    /// # Panics
    ///
    /// There is another record, or none, or the message is not an `M`.
    #[track_caller]
    pub fn completed<M: Message + Default>(self) -> M {
        match &self {
            Self::Completed { message, .. } => match M::decode(message.clone()) {
                Ok(message) => message,
                Err(error) => panic!("the stored response is not of this type: {error}"),
            },
            _ => panic!("expected the record of a call that succeeded; but {self}"),
        }
    }

    /// Asserts that there is no record: the key is free.
    ///
    /// # Panics
    ///
    /// There is one.
    #[track_caller]
    pub fn absent(self) {
        assert!(self == Self::Absent, "expected no record; but {self}");
    }

    /// Returns the id of the resource that the call created, if the record has one.
    pub fn resource(&self) -> Option<&ResourceId> {
        match self {
            Self::Completed { resource, .. } | Self::NotStored { resource, .. } | Self::Sealed { resource, .. } => {
                resource.as_ref()
            }
            _ => None,
        }
    }

    /// Returns the time for which the record of an outcome still lives; `None` without one.
    pub fn expires_in(&self) -> Option<Duration> {
        match self {
            Self::Completed { expires_in, .. }
            | Self::Failed { expires_in }
            | Self::NotStored { expires_in, .. }
            | Self::Sealed { expires_in, .. } => Some(*expires_in),
            Self::Absent | Self::OfAnotherCall | Self::Reserved | Self::Unknown => None,
        }
    }
}

/// Describes the record in a sentence.
impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absent => "the store keeps no record of the key",
            Self::Completed { .. } => "the record says that the call succeeded",
            Self::Failed { .. } => "the record says that the call ended with a final error",
            Self::NotStored { .. } => "the record says that the call succeeded, without its response",
            Self::Sealed { .. } => "the record says that the call succeeded, and its response is sealed",
            Self::OfAnotherCall => "the store keeps the record of a call that this harness did not make",
            Self::Reserved => "a call holds the key",
            Self::Unknown => "the call that held the key left no outcome",
        })
    }
}
