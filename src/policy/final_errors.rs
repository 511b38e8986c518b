use std::{error, fmt};

use tonic::Code;

/// Errors that end an operation: stored and replayed as a response is.
///
/// A code that says that the same call may succeed later is never one of them: stored, it would freeze a passing trouble for
/// as long as the record lives. These are `ABORTED`, `CANCELLED`, `DEADLINE_EXCEEDED`, `INTERNAL`, `RESOURCE_EXHAUSTED`,
/// `UNAVAILABLE` and `UNKNOWN`.
///
/// ```
/// use tonic::Code;
/// use tonic_idempotency::policy::FinalErrors;
///
/// assert!(!FinalErrors::default().contains(Code::NotFound));
///
/// let errors = FinalErrors::new([Code::FailedPrecondition, Code::NotFound])?;
/// assert!(errors.contains(Code::NotFound));
/// assert!(FinalErrors::new([Code::Unavailable]).is_err());
/// # Ok::<_, tonic_idempotency::policy::InvalidFinalError>(())
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct FinalErrors {
    /// A bit for each code.
    codes: u32,
}

impl FinalErrors {
    /// No error is final. The default.
    pub const NONE: Self = Self { codes: 0 };

    /// These errors.
    ///
    /// # Errors
    ///
    /// [`InvalidFinalError`] for `OK`, and for a code that says that the same call may succeed later.
    pub fn new(codes: impl IntoIterator<Item = Code>) -> Result<Self, InvalidFinalError> {
        codes.into_iter().try_fold(Self::NONE, |errors, code| match may_be_final(code) {
            true => Ok(Self { codes: errors.codes | bit(code) }),
            false => Err(InvalidFinalError { code }),
        })
    }

    /// Whether an error with this code is final.
    pub fn contains(&self, code: Code) -> bool {
        self.codes & bit(code) != 0
    }

    /// Whether no error is final.
    pub fn is_empty(&self) -> bool {
        *self == Self::NONE
    }
}

impl fmt::Debug for FinalErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries((0..=16).map(Code::from_i32).filter(|code| self.contains(*code))).finish()
    }
}

/// A code that no final error can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidFinalError {
    code: Code,
}

impl InvalidFinalError {
    /// The code.
    pub fn code(&self) -> Code {
        self.code
    }
}

impl fmt::Display for InvalidFinalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} cannot be a final error: ", self.code)?;
        f.write_str(match self.code {
            Code::Ok => "it is no error",
            _ => "the same call may succeed later, and a stored error would keep it from that",
        })
    }
}

impl error::Error for InvalidFinalError {}

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
