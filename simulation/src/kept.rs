//! The evidence about journals.

use std::time::Duration;

use tonic::{Code, Status};
use tonic_idempotency::rejection::Reason;
use tonic_idempotency_client::journal::EntryOutcome;

/// The evidence about one journal.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// The last attempt that a caller has made.
    pub(crate) attempt: usize,
    /// The number of ends at the time at which a process was killed with a call on its disk.
    pub(crate) left_at: Option<usize>,
    /// The ends that a caller, or the application, was told.
    pub(crate) ends: Vec<End>,
    /// Whether there is an entry in the end.
    pub(crate) has_entry: bool,
    /// When its process was killed with a call on its disk.
    pub(crate) killed: Vec<Duration>,
    /// When it was sent after its key had ceased to protect.
    pub(crate) sent_late: Vec<Duration>,
    /// The things that were seen and must not be.
    pub(crate) seen: Vec<String>,
}

impl Kept {
    /// Returns whether its process was killed meanwhile with the call on its disk: the next one sends it once more, whatever was told.
    pub(crate) fn is_sent_once_more(&self, from: Duration, to: Duration) -> bool {
        self.killed.iter().any(|at| from <= *at && *at <= to)
    }

    /// Returns what was broken.
    pub(crate) fn broken(&self) -> impl Iterator<Item = String> {
        let ends = self.ends.iter().filter(|end| end.is_none()).map(|end| format!("{end:?} is told as the end"));
        let is_lost = self.left_at == Some(self.ends.len()) && !self.has_entry;
        let lost = is_lost.then(|| "an entry is gone, and nobody was told of an end".to_owned());
        let late = self.sent_late.iter().map(|at| format!("it is sent at {at:?}, after its entry has expired"));
        self.seen.iter().cloned().chain(ends).chain(lost).chain(late)
    }
}

/// An end of an operation.
#[derive(Clone, Debug)]
pub(crate) enum End {
    Answered,
    Expired,
    Failed(Code, Option<Reason>),
}

impl End {
    pub(crate) fn of(status: &Status) -> Self {
        Self::Failed(status.code(), Reason::of(status))
    }

    pub(crate) fn among(outcome: &EntryOutcome) -> Option<Self> {
        match outcome {
            EntryOutcome::Answered(_) => Some(Self::Answered),
            EntryOutcome::Expired { .. } => Some(Self::Expired),
            EntryOutcome::Failed(status) => Some(Self::of(status)),
            _ => None,
        }
    }

    /// Whether it ends no operation: it is the network's, or the server's word that it does not know.
    fn is_none(&self) -> bool {
        match self {
            Self::Failed(_, Some(reason)) => matches!(reason, Reason::InProgress | Reason::OutcomeUnknown),
            Self::Failed(code, None) => matches!(code, Code::Unavailable | Code::Cancelled | Code::DeadlineExceeded),
            Self::Answered | Self::Expired => false,
        }
    }
}
