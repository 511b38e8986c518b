//! The answer to a call, whatever the protocol.

use std::{fmt, io, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use sha2::{Digest as _, Sha256};
use tonic::Status;
use tonic_types::StatusExt as _;

/// A response of HTTP, read to its end.
pub(super) struct Whole {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) trailers: HeaderMap,
}

#[derive(Clone, Debug)]
pub(in crate::check) struct Answer {
    pub(in crate::check) outcome: Outcome,
    pub(in crate::check) headers: HeaderMap,
    pub(in crate::check) trailers: HeaderMap,
}

#[derive(Clone, Debug)]
pub(in crate::check) enum Outcome {
    /// A success, with its message as the protocol encodes it.
    Success(Bytes),
    Error(Status),
    /// There is no answer, or none that the protocol knows.
    Lost(Lost),
}

/// Why there is no answer.
#[derive(Clone, Debug)]
pub(in crate::check) struct Lost(String);

impl Answer {
    pub(in crate::check) fn message(&self) -> Option<&Bytes> {
        match &self.outcome {
            Outcome::Success(message) => Some(message),
            Outcome::Error(_) | Outcome::Lost(_) => None,
        }
    }

    pub(in crate::check) fn error(&self) -> Option<&Status> {
        match &self.outcome {
            Outcome::Error(status) => Some(status),
            Outcome::Success(_) | Outcome::Lost(_) => None,
        }
    }

    /// Returns the value of a header, or of the trailer of that name: an error alone may have its metadata in either.
    pub(in crate::check) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).or_else(|| self.trailers.get(name))?.to_str().ok()
    }
}

impl From<Result<Self, Lost>> for Answer {
    fn from(answer: Result<Self, Lost>) -> Self {
        let lost =
            |lost| Self { outcome: Outcome::Lost(lost), headers: HeaderMap::default(), trailers: HeaderMap::default() };
        answer.unwrap_or_else(lost)
    }
}

/// The words of a report for an answer. A message may be anybody's data: it has its length and its digest.
impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            Outcome::Success(message) => {
                let digest = Sha256::digest(message);
                write!(f, "OK, {} bytes, sha256 ", message.len())?;
                digest.iter().take(4).try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Outcome::Error(status) => {
                write!(f, "{:?}", status.code())?;
                if let Some(info) = status.get_details_error_info() {
                    write!(f, " {}", info.reason)?;
                }
                if status.message().is_empty() { Ok(()) } else { write!(f, ": {}", status.message()) }
            }
            Outcome::Lost(lost) => write!(f, "no answer: {lost}"),
        }
    }
}

impl Lost {
    pub(super) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }

    pub(super) fn late(patience: Duration) -> Self {
        Self(format!("none within {} s", patience.as_secs()))
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<h2::Error> for Lost {
    fn from(error: h2::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<http::Error> for Lost {
    fn from(error: http::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<io::Error> for Lost {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}
