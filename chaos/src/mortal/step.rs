//! The steps of a call in its client.

use crate::named::Named;

/// A step of a call at which its client can die, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

impl Named for ClientStep {
    const ALL: &'static [Self] =
        &[Self::BeforeWrite, Self::AfterWrite, Self::BeforeSend, Self::AfterAnswer, Self::BeforeEnd, Self::AfterEnd];

    fn name(self) -> &'static str {
        match self {
            Self::BeforeWrite => "before_write",
            Self::AfterWrite => "after_write",
            Self::BeforeSend => "before_send",
            Self::AfterAnswer => "after_answer",
            Self::BeforeEnd => "before_end",
            Self::AfterEnd => "after_end",
        }
    }
}
