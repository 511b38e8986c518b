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

    /// Returns whether an error of this type can be final at all: then a transaction begins with a savepoint, to which the handler's writes are
    /// rolled back. Defaults to `true`.
    fn can_be_final(codes: &FinalErrors) -> bool {
        let _ = codes;
        true
    }

    /// Returns the error that was stored; `None`, which is the default, if these bytes are none.
    fn from_final(stored: &[u8]) -> Option<Self> {
        let _ = stored;
        None
    }

    /// Returns the error with its sources, for drivers that cannot see the statements of handlers: they look here for a transaction that
    /// has lost against another one. Defaults to `None`.
    fn as_error(&self) -> Option<&(dyn Error + 'static)> {
        None
    }
}

/// Final are the codes in the operation's [`final_errors`](crate::policy::ProcedureBuilder::final_errors), as for a gRPC handler.
impl HandlerError for Status {
    fn to_final(&self, codes: &FinalErrors) -> Option<Vec<u8>> {
        let status = pb::Status {
            code: self.code().into(),
            message: self.message().to_owned(),
            details: pb::Status::decode(self.details()).unwrap_or_default().details,
        };
        codes.contains(self.code()).then(|| status.encode_to_vec())
    }

    fn can_be_final(codes: &FinalErrors) -> bool {
        !codes.is_empty()
    }

    fn from_final(stored: &[u8]) -> Option<Self> {
        let status = pb::Status::decode(stored).ok().filter(|status| status.code != Code::Ok as i32)?;
        let details = if status.details.is_empty() { Vec::new() } else { stored.to_vec() };
        Some(Self::with_details(Code::from_i32(status.code), status.message, details.into()))
    }

    fn as_error(&self) -> Option<&(dyn Error + 'static)> {
        Some(self)
    }
}

impl HandlerError for Infallible {
    fn can_be_final(_codes: &FinalErrors) -> bool {
        false
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
