//! How an operation ended: [`Outcome`].

/// The response of an operation that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome<T> {
    /// The handler ran just now.
    First(T),
    /// The handler has run before: this is its response of then.
    Replayed(T),
}

impl<T> Outcome<T> {
    /// Returns the response.
    pub fn into_inner(self) -> T {
        match self {
            Self::First(response) | Self::Replayed(response) => response,
        }
    }

    /// Returns whether the handler has run before, and not now.
    pub fn is_replay(&self) -> bool {
        matches!(self, Self::Replayed(_))
    }
}
