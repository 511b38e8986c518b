//! The errors that end an operation.

use std::fmt;

use thiserror::Error;
use tonic::Code;

/// The codes of the errors that end an operation: they are stored and replayed like a response.
///
/// After `ABORTED`, `CANCELLED`, `DEADLINE_EXCEEDED`, `INTERNAL`, `RESOURCE_EXHAUSTED`, `UNAVAILABLE` and `UNKNOWN` the
/// same call may succeed later. These cannot be final: a temporary problem would last as long as the record.
///
/// ```
/// use tonic::Code;
/// use tonic_idempotency::policy::FinalErrors;
///
/// // Default: no error is final.
/// assert!(!FinalErrors::default().contains(Code::NotFound));
///
/// // Customised.
/// let errors = FinalErrors::new([Code::FailedPrecondition, Code::NotFound])?;
/// assert!(errors.contains(Code::NotFound));
/// assert!(FinalErrors::new([Code::Unavailable]).is_err());
/// # Ok::<_, tonic_idempotency::policy::InvalidFinalError>(())
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct FinalErrors {
    /// One bit per code.
    codes: u32,
}

impl FinalErrors {
    /// No error is final. The default.
    pub const NONE: Self = Self { codes: 0 };

    /// Creates a set of codes.
    ///
    /// # Errors
    ///
    /// [`InvalidFinalError`] for `OK`, and for a code after which the same call may succeed later.
    pub fn new(codes: impl IntoIterator<Item = Code>) -> Result<Self, InvalidFinalError> {
        codes.into_iter().try_fold(Self::NONE, |errors, code| match may_be_final(code) {
            true => Ok(Self { codes: errors.codes | bit(code) }),
            false => Err(InvalidFinalError { code }),
        })
    }

    /// Returns whether an error with this code is final.
    pub fn contains(&self, code: Code) -> bool {
        self.codes & bit(code) != 0
    }

    /// Returns the codes, in the order of their numbers.
    pub(super) fn codes(&self) -> impl Iterator<Item = Code> {
        (0..=16).map(Code::from_i32).filter(|code| self.contains(*code))
    }

    /// Returns whether no error is final.
    pub fn is_empty(&self) -> bool {
        *self == Self::NONE
    }
}

impl fmt::Debug for FinalErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.codes()).finish()
    }
}

/// A code that cannot be final.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("{code:?} cannot be a final error: {}", why_not(*.code))]
pub struct InvalidFinalError {
    code: Code,
}

impl InvalidFinalError {
    /// Returns the code.
    pub fn code(&self) -> Code {
        self.code
    }
}

fn bit(code: Code) -> u32 {
    1 << i32::from(code)
}

fn may_be_final(code: Code) -> bool {
    match code {
        Code::AlreadyExists
        | Code::DataLoss
        | Code::FailedPrecondition
        | Code::InvalidArgument
        | Code::NotFound
        | Code::OutOfRange
        | Code::PermissionDenied
        | Code::Unauthenticated
        | Code::Unimplemented => true,
        Code::Aborted
        | Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Internal
        | Code::Ok
        | Code::ResourceExhausted
        | Code::Unavailable
        | Code::Unknown => false,
    }
}

fn why_not(code: Code) -> &'static str {
    match code {
        Code::Ok => "it is not an error",
        _ => "the same call may succeed later, which a stored error would prevent",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_matrix() {
        let never = [
            Code::Ok,
            Code::Unavailable,
            Code::DeadlineExceeded,
            Code::Aborted,
            Code::Cancelled,
            Code::Internal,
            Code::Unknown,
            Code::ResourceExhausted,
        ];
        for code in (0..=16).map(Code::from_i32) {
            let expected = !never.contains(&code);
            match FinalErrors::new([code]) {
                Ok(errors) => assert!(expected && errors.contains(code) && !errors.is_empty(), "{code:?}"),
                Err(error) => assert!(!expected && error.code() == code, "{code:?}"),
            }
            assert!(!FinalErrors::NONE.contains(code));
        }
        let two = FinalErrors::new([Code::NotFound, Code::OutOfRange]).expect("both may be final");
        assert_eq!(format!("{two:?}"), "{NotFound, OutOfRange}");
    }
}
