//! The steps of the protocol at which a server can be killed or paused.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::{mode::Mode, named::name};

/// A step of a call on its server, in this order. Each is a `tracing` event with the field `step`.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, ValueEnum)]
#[value(rename_all = "snake_case")]
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
    /// Whether calls in this mode pass it.
    pub(crate) fn is_of(self, mode: Mode) -> bool {
        mode == Mode::Reserved || self != Self::HandlerCommitted
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name(*self))
    }
}
