//! The status that clients see.

use std::fmt;

use http::{HeaderMap, HeaderValue};

use crate::headers;

/// The status of the asynchronous work behind the created resource: the value of the header `Idempotency-Status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "the wire contract: there are no other values")]
pub enum IdempotencyStatus {
    /// The work has finished, or the procedure does not create a tracked resource.
    Completed,
    /// The work has failed for good.
    Failed,
    /// The work has not finished, or its status is unknown.
    Processing,
}

impl IdempotencyStatus {
    /// The name of the response header.
    pub const HEADER: &'static str = headers::STATUS;

    /// Reads the header of a response; `None` if it is missing, or has another value than those of the contract.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let value = headers.get(Self::HEADER)?;
        [Self::Completed, Self::Failed, Self::Processing].into_iter().find(|status| value == status.as_str())
    }

    /// Returns the value of the header.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Processing => "processing",
        }
    }

    /// Returns the value of the header, as a header value.
    pub fn header_value(self) -> HeaderValue {
        HeaderValue::from_static(self.as_str())
    }
}

impl fmt::Display for IdempotencyStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
