//! The steps of a call in its client.

use clap::ValueEnum;

/// A step of a call at which its client can die, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum ClientStep {
    /// The entry is about to be written.
    BeforeWrite,
    /// The entry is durable; nothing has been sent.
    AfterWrite,
    /// An attempt is about to be sent.
    BeforeSend,
    /// The answer of an attempt has arrived; the layer has not seen it.
    AfterAnswer,
    /// The end of the entry is about to be written.
    BeforeEnd,
    /// The end of the entry is durable.
    AfterEnd,
}
