//! The errors of a journal.

use std::{error::Error, sync::Arc};

use thiserror::Error;
use tonic::Status;
use tonic_idempotency_wire::{DOMAIN, Reason};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::BoxError;

/// An operation of a journal has failed.
///
/// A call that cannot be written down is not sent, and fails with a status:
///
/// | error | code | what to do |
/// |---|---|---|
/// | [`Expired`](Self::Expired) | `FAILED_PRECONDITION` | find out whether the operation took effect, and give its entry up |
/// | [`Full`](Self::Full) | `RESOURCE_EXHAUSTED` | free space on the journal's disk, and call again |
/// | [`InUse`](Self::InUse) | `INTERNAL` | give each process a journal of its own |
/// | [`KeyReused`](Self::KeyReused) | `INVALID_ARGUMENT`, `IDEMPOTENCY_KEY_REUSED` | use a new key for another request |
/// | [`Store`](Self::Store) | `INTERNAL` | see the cause |
/// | [`Version`](Self::Version) | `INTERNAL` | use the version of this crate that has written the journal, or a newer one |
#[derive(Clone, Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The journal has an entry with this key that is too old to be sent: its key may no longer protect it.
    #[error(
        "the journal's entry with the key {key} is too old to be sent again; find out whether the operation took effect, and give the entry up"
    )]
    Expired {
        /// The key.
        key: String,
    },
    /// The disk, or the quota, is full.
    #[error("there is no space for the journal {journal}; free some, and try again")]
    Full {
        /// The path of the file.
        journal: String,
        /// The cause.
        #[source]
        source: Arc<dyn Error + Send + Sync>,
    },
    /// Another journal has the file open, in this process or in another.
    #[error("the journal {journal} is open already, in this process or another; each needs a journal of its own")]
    InUse {
        /// The path of the file.
        journal: String,
    },
    /// The journal has an entry with this key that is for another request or procedure.
    #[error("the journal has an entry with the key {key} for another request; use a new key")]
    KeyReused {
        /// The key.
        key: String,
    },
    /// The store has failed.
    #[error("the journal {journal} has failed")]
    Store {
        /// The path of the file, or another description of the store.
        journal: String,
        /// The cause.
        #[source]
        source: Arc<dyn Error + Send + Sync>,
    },
    /// The file is of a version that this one does not read. It is unchanged.
    #[error(
        "the journal {journal} is of another version: {version}; use the version of tonic-idempotency-client that has written it, or a newer one"
    )]
    Version {
        /// The path of the file.
        journal: String,
        /// The version that was found, in words.
        version: String,
    },
}

tonic_idempotency_wire::debug_tells!(JournalError);

impl JournalError {
    /// Makes the error of a store that has failed.
    pub fn store(journal: impl Into<String>, source: impl Into<BoxError>) -> Self {
        Self::Store { journal: journal.into(), source: Arc::from(source.into()) }
    }

    /// Returns the status of a call that was not sent because of this.
    pub(crate) fn status(&self) -> Status {
        let cause = self.source().map(|cause| format!(": {cause}")).unwrap_or_default();
        let message = format!("the call was not sent: {self}{cause}");
        match self {
            Self::Expired { .. } => Status::failed_precondition(message),
            Self::Full { .. } => Status::resource_exhausted(message),
            Self::InUse { .. } | Self::Store { .. } | Self::Version { .. } => Status::internal(message),
            Self::KeyReused { .. } => {
                let details = ErrorDetails::with_error_info(Reason::KeyReused.as_str(), DOMAIN, []);
                Status::with_error_details(tonic::Code::InvalidArgument, message, details)
            }
        }
    }
}
