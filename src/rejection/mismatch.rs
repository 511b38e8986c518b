//! The comparison of a call with the first call with its key.

/// The difference between a call and the first call with its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mismatch {
    /// The procedures differ.
    Procedure,
    /// The procedure is the same, and the request messages differ.
    Request,
}

impl Mismatch {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Procedure => "procedure",
            Self::Request => "request",
        }
    }
}
