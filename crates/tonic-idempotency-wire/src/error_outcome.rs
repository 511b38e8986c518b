//! What became of the key of a call that failed.

use http::{HeaderMap, HeaderValue};

use crate::headers;

/// What became of the key of a call whose handler has answered with an error: the value of the header `Idempotency-Outcome`. It tells a client
/// that the error is of this very operation, and not of a proxy.
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
