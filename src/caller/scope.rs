//! The scope that a user acts in, such as a tenant.

use std::{borrow::Cow, fmt};

use uuid::Uuid;

use super::id::{Id, InvalidCallerId};

/// The scope that a user acts in: a tenant, an account, or another user on whose behalf the user acts. A UUID or a text. Two
/// scopes never share a key, a record or a replay, even for the same user. Cloning it allocates nothing.
///
/// Like the [`UserId`](super::UserId), it must not come from unauthenticated input.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Scope(Id);

impl Scope {
    /// Creates the scope with this id.
    pub fn new(id: Uuid) -> Self {
        Self(Id::Uuid(id))
    }

    /// Creates the scope with this id, a text of 1 to 255 bytes. The usual form of a UUID is that UUID, as in
    /// [`UserId::from_text`](super::UserId::from_text).
    ///
    /// # Errors
    ///
    /// [`InvalidCallerId`] if the text is empty or longer than 255 bytes.
    pub fn from_text(id: &str) -> Result<Self, InvalidCallerId> {
        Id::from_text(id).map(Self)
    }

    /// Returns the scope's id if it is a UUID.
    pub fn as_uuid(&self) -> Option<&Uuid> {
        self.0.as_uuid()
    }

    /// Returns the scope's id as a text.
    pub fn to_text(&self) -> Cow<'_, str> {
        self.0.to_text()
    }
}

/// Omits the id, to keep it out of logs.
impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scope(..)")
    }
}
