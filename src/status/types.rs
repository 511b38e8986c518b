use std::{error, fmt, str::FromStr};

use http::HeaderValue;

/// Whether the asynchronous work behind the created resource has finished. What clients see in `Idempotency-Status`, and
/// nothing but these three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IdempotencyStatus {
    /// The work has finished. Also where a procedure creates no tracked resource.
    Completed,
    /// The work has failed for good.
    Failed,
    /// The work goes on, or nothing is known of it.
    Processing,
}

impl IdempotencyStatus {
    /// The name of the response header.
    pub const HEADER: &'static str = "idempotency-status";

    /// The header's value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Processing => "processing",
        }
    }

    pub(crate) fn header_value(self) -> HeaderValue {
        HeaderValue::from_static(self.as_str())
    }
}

impl fmt::Display for IdempotencyStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The state of an outbox row (FUN-15 section 2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutboxStatus {
    /// The outbox has processed the row.
    Completed,
    /// The outbox has given the row up.
    Failed,
    /// The outbox has not come to the row yet.
    Pending,
    /// The outbox has failed at the row, and will try again.
    Retrying,
}

impl From<OutboxStatus> for IdempotencyStatus {
    fn from(status: OutboxStatus) -> Self {
        match status {
            OutboxStatus::Completed => Self::Completed,
            OutboxStatus::Failed => Self::Failed,
            OutboxStatus::Pending | OutboxStatus::Retrying => Self::Processing,
        }
    }
}

impl FromStr for OutboxStatus {
    type Err = UnknownOutboxStatus;

    fn from_str(text: &str) -> Result<Self, UnknownOutboxStatus> {
        match text {
            "completed" => Ok(Self::Completed),
            "failed" => Ok(Self::Failed),
            "pending" => Ok(Self::Pending),
            "retrying" => Ok(Self::Retrying),
            _ => Err(UnknownOutboxStatus { text: text.to_owned() }),
        }
    }
}

/// An outbox status that is none of `pending`, `retrying`, `completed` and `failed`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownOutboxStatus {
    text: String,
}

impl fmt::Display for UnknownOutboxStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown outbox status {:?}", self.text)
    }
}

impl error::Error for UnknownOutboxStatus {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_matrix() {
        for (outbox, header) in
            [("pending", "processing"), ("retrying", "processing"), ("completed", "completed"), ("failed", "failed")]
        {
            let status: OutboxStatus = outbox.parse().expect("a known status");
            assert_eq!(IdempotencyStatus::from(status).as_str(), header);
        }
    }

    #[test]
    fn does_not_take_an_unknown_status_for_a_known_one() {
        assert!("done".parse::<OutboxStatus>().is_err());
        assert!("Completed".parse::<OutboxStatus>().is_err());
    }
}
