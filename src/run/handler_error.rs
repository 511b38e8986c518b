//! The errors of handlers: [`HandlerError`].

use std::{convert::Infallible, error::Error};

use prost::Message as _;
use tonic::{Code, Status};
use tonic_types::pb;

use crate::policy::FinalErrors;

/// An error of a handler. By default none is final: the key is freed, and the next delivery runs the handler again.
///
/// A final error ends the operation: it is stored, and given to each later call with the key. A message that can never be handled
/// (a *poison message*) should end with one.
///
/// ```
/// use tonic_idempotency::{policy::FinalErrors, run::HandlerError};
///
/// #[derive(Debug)]
/// enum ChargeError {
///     CardExpired,
///     Network,
/// }
///
/// impl HandlerError for ChargeError {
///     fn to_final(&self, _codes: &FinalErrors) -> Option<Vec<u8>> {
///         matches!(self, Self::CardExpired).then(|| b"card expired".to_vec())
///     }
///
///     fn from_final(stored: &[u8]) -> Option<Self> {
///         (stored == b"card expired").then_some(Self::CardExpired)
///     }
/// }
/// ```
pub trait HandlerError: Sized + Send + 'static {
    /// Returns the error as it is stored; `None`, which is the default, if it is not final. `codes` are the operation's
    /// [`final_errors`](crate::policy::ProcedureBuilder::final_errors), for errors that have a code.
    fn to_final(&self, codes: &FinalErrors) -> Option<Vec<u8>> {
        let _ = codes;
        None
    }

    /// Returns the error as it is stored if [`to_final`](Self::to_final) makes more than `max` bytes of it, the layer's
    /// [`max_response_bytes`](crate::layer::IdempotencyLayerBuilder::max_response_bytes). `None`, which is the default, stores nothing of
    /// it: the operation has ended all the same, and a later call gets [`RunError::Unreadable`](super::RunError::Unreadable).
    fn to_short_final(&self, max: usize) -> Option<Vec<u8>> {
        let _ = max;
        None
    }

    /// Returns the error that was stored; `None`, which is the default, if these bytes are none.
    fn from_final(stored: &[u8]) -> Option<Self> {
        let _ = stored;
        None
    }

    /// Returns whether an error of this type can be final at all: only then a transactional operation has the savepoint to which the
    /// handler's writes are rolled back. Defaults to `true`.
    fn can_be_final(codes: &FinalErrors) -> bool {
        let _ = codes;
        true
    }

    /// Returns the error with its sources: the text of a [`RunError`](super::RunError), and where drivers that cannot see the statements of
    /// handlers look for a transaction that has lost against another one. Defaults to `None`.
    fn as_error(&self) -> Option<&(dyn Error + 'static)> {
        None
    }
}

/// Final are the codes in the operation's [`final_errors`](crate::policy::ProcedureBuilder::final_errors), as for a gRPC handler. One that is
/// too large to store loses its details, and then the end of its message.
impl HandlerError for Status {
    fn to_final(&self, codes: &FinalErrors) -> Option<Vec<u8>> {
        let details = pb::Status::decode(self.details()).unwrap_or_default().details;
        codes.contains(self.code()).then(|| encode(self, self.message(), details))
    }

    fn to_short_final(&self, max: usize) -> Option<Vec<u8>> {
        let whole = encode(self, self.message(), Vec::new());
        let excess = whole.len().saturating_sub(max);
        let left = self.message().len().saturating_sub(excess);
        let end = (0..=left).rev().find(|&end| self.message().is_char_boundary(end)).unwrap_or(0);
        Some(encode(self, &self.message()[..end], Vec::new()))
    }

    fn from_final(stored: &[u8]) -> Option<Self> {
        let status = pb::Status::decode(stored).ok().filter(|status| status.code != Code::Ok as i32)?;
        let details = if status.details.is_empty() { Vec::new() } else { stored.to_vec() };
        Some(Self::with_details(Code::from_i32(status.code), status.message, details.into()))
    }

    fn can_be_final(codes: &FinalErrors) -> bool {
        !codes.is_empty()
    }

    fn as_error(&self) -> Option<&(dyn Error + 'static)> {
        Some(self)
    }
}

fn encode(status: &Status, message: &str, details: Vec<prost_types::Any>) -> Vec<u8> {
    pb::Status { code: status.code().into(), message: message.to_owned(), details }.encode_to_vec()
}

impl HandlerError for Infallible {
    fn can_be_final(_codes: &FinalErrors) -> bool {
        false
    }
}

/// None is final.
impl HandlerError for Box<dyn Error + Send + Sync> {
    fn can_be_final(_codes: &FinalErrors) -> bool {
        false
    }

    fn as_error(&self) -> Option<&(dyn Error + 'static)> {
        Some(&**self)
    }
}

/// None is final.
#[cfg(feature = "postgres")]
impl HandlerError for crate::store::TransactionError {
    fn can_be_final(_codes: &FinalErrors) -> bool {
        false
    }

    fn as_error(&self) -> Option<&(dyn Error + 'static)> {
        Some(self)
    }
}
