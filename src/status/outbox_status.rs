//! The status of an outbox row.

use std::str::FromStr;

use thiserror::Error;

use super::IdempotencyStatus;

/// The status of a row in the outbox, which holds the asynchronous work behind a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "the contract with the outbox: there are no other values")]
pub enum OutboxStatus {
    /// The row has been processed.
    Completed,
    /// Processing has failed for good.
    Failed,
    /// The row has not been processed yet.
    Pending,
    /// Processing has failed and will be retried.
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

/// A text other than `pending`, `retrying`, `completed` and `failed`.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("unknown outbox status {text:?}")]
pub struct UnknownOutboxStatus {
    text: String,
}

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
    fn does_not_parse_an_unknown_status() {
        assert!("done".parse::<OutboxStatus>().is_err());
        assert!("Completed".parse::<OutboxStatus>().is_err());
    }
}
