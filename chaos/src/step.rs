//! The steps of the protocol at which a server can be killed or paused.

use std::{fmt, str::FromStr};

use crate::mode::Mode;

/// The target of the engine's step events.
pub(crate) const ENGINE_TARGET: &str = "tonic_idempotency::step";

/// The target of the engine's events of unprotected runs.
pub(crate) const UNPROTECTED_TARGET: &str = "tonic_idempotency";

/// The target of the sample's step events, and of its calls' spans.
pub(crate) const SAMPLE_TARGET: &str = "organization::step";

/// A step of a call on its server, in this order. Each is a `tracing` event with the field `step`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Step {
    /// The claim is about to be sent.
    BeforeClaim,
    /// The call has the key; the handler has not begun.
    AfterClaim,
    /// The handler is about to write.
    HandlerStarted,
    /// The handler's rows are written, in an open transaction.
    HandlerWrote,
    /// The handler's own transaction is committed. Not passed in transactional mode.
    HandlerCommitted,
    /// The handler has ended; nothing of the outcome has been sent.
    BeforeSettle,
    /// The outcome is recorded; the caller has no answer yet.
    AfterSettle,
}

impl Step {
    pub(crate) const ALL: [Self; 7] = [
        Self::BeforeClaim,
        Self::AfterClaim,
        Self::HandlerStarted,
        Self::HandlerWrote,
        Self::HandlerCommitted,
        Self::BeforeSettle,
        Self::AfterSettle,
    ];

    /// The steps of a call in this mode.
    pub(crate) fn of(mode: Mode) -> Vec<Self> {
        Self::ALL.into_iter().filter(|step| mode == Mode::Reserved || *step != Self::HandlerCommitted).collect()
    }

    /// The name, as in the events.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::BeforeClaim => "before_claim",
            Self::AfterClaim => "after_claim",
            Self::HandlerStarted => "handler_started",
            Self::HandlerWrote => "handler_wrote",
            Self::HandlerCommitted => "handler_committed",
            Self::BeforeSettle => "before_settle",
            Self::AfterSettle => "after_settle",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Step {
    type Err = UnknownStep;

    fn from_str(text: &str) -> Result<Self, UnknownStep> {
        Self::ALL.into_iter().find(|step| step.as_str() == text).ok_or(UnknownStep)
    }
}

/// The text is not the name of a [`Step`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnknownStep;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_the_name_of_every_step() {
        for step in Step::ALL {
            assert_eq!(step.as_str().parse::<Step>().ok(), Some(step));
        }
        assert!("after_lunch".parse::<Step>().is_err());
    }
}
