//! The header by which a server tells whether the error of a failed call was recorded.

use http::{HeaderMap, HeaderValue};

use crate::headers;

/// Whether the error of a call's handler was recorded under its key: the value of the header `Idempotency-Outcome`. The header shows a
/// client that the error is this operation's own, and not a proxy's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "the wire contract: there are no other values")]
pub enum ErrorOutcome {
    /// Nothing is recorded: a retry runs.
    Freed,
    /// The error is recorded: a retry gets it again.
    Kept,
}

impl ErrorOutcome {
    /// Reads the headers, or the trailers, of an answer; `None` if they have no such header, or another value than those of the contract.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let value = headers.get(headers::OUTCOME)?;
        [Self::Freed, Self::Kept].into_iter().find(|outcome| value == outcome.as_str())
    }

    /// Returns the value of the header.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Freed => "freed",
            Self::Kept => "kept",
        }
    }

    /// Returns the value of the header, as a header value.
    pub fn header_value(self) -> HeaderValue {
        HeaderValue::from_static(self.as_str())
    }
}
