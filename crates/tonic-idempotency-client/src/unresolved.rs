//! The error of a call whose outcome is unknown.

use std::{error::Error as StdError, fmt};

use thiserror::Error;
use tokio::time::Instant;
use tonic::Status;

use crate::OperationKey;

/// A call with an unknown outcome: its last answer was lost, or did not come from the server's layer. Calling again with the same key is
/// safe, unless it is [unprotected](Self::unprotected); with a new key, the operation may happen twice.
///
/// It is the source of the call's error. Only the client's own layer makes it: no server can.
///
/// ```
/// use tonic_idempotency_client::Unresolved;
///
/// fn say(error: &tonic::Status) {
///     match Unresolved::of(error) {
///         Some(call) if call.in_journal => println!("{} is sent again later", call.key),
///         Some(call) => println!("nobody knows what became of {}", call.key),
///         None => println!("it has failed: {error}"),
///     }
/// }
/// # say(&tonic::Status::not_found("no such thing"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unresolved {
    /// The number of attempts.
    pub attempts: u32,
    /// Whether the call stays in the journal, and is sent again by [`resume`](crate::journal::Journal::resume) or a
    /// [`Worker`](crate::journal::Worker).
    pub in_journal: bool,
    /// The key.
    pub key: OperationKey,
    /// Whether it was not sent again because its server said that it does not protect the procedure. Calling again with the same key may
    /// then happen twice, too.
    pub unprotected: bool,
    /// When the last attempt was given up that may be under way.
    pub(crate) given_up: Option<Instant>,
    /// Whether another answer is to be expected only after a change of the server or of its surroundings.
    pub(crate) is_stuck: bool,
    /// The last answer, named for the log.
    pub(crate) reason: String,
}

impl Unresolved {
    /// Returns the unresolved call behind this error; `None` if the call has ended, or was not sent.
    pub fn of(error: &Status) -> Option<&Self> {
        Self::among(error)
    }

    /// The same for an error that has it among its sources.
    pub(crate) fn among<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Self> {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(unresolved) = error.downcast_ref() {
                return Some(unresolved);
            }
            cause = error.source();
        }
        None
    }
}

impl fmt::Display for Unresolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it is not known what became of the operation with the key {}", self.key)
    }
}

impl StdError for Unresolved {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.unprotected.then_some(&UnprotectedProcedure as _)
    }
}

/// The reason why a call is not sent again to a server that does not protect its procedure.
#[derive(Debug, Error)]
#[error("it is not sent again, because its server says that it does not protect the procedure, and might run it twice")]
struct UnprotectedProcedure;
