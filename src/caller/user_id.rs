//! The authenticated user of a call.

use std::{borrow::Cow, fmt};

use uuid::Uuid;

use super::id::{Id, InvalidCallerId};

/// The authenticated user that a key belongs to, as the application knows it: a UUID, or a text such as `auth0|5f7c8ec7`.
/// Two users can use the same key without affecting each other. Cloning it allocates nothing.
///
/// The id must not come from unauthenticated input. An authentication interceptor in front of the layer inserts it into
/// the request's extensions, alone or with a scope as a [`Caller`](super::Caller).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct UserId(Id);

impl UserId {
    /// Creates the user with this id.
    pub fn new(id: Uuid) -> Self {
        Self(Id::Uuid(id))
    }

    /// Creates the user with this id, a text of 1 to 255 bytes.
    ///
    /// The usual form of a UUID, in lower case and with hyphens, is that UUID: an application that changes from
    /// [`new`](Self::new) to this method keeps its users' records. Any other text is a user of its own: two texts that
    /// differ only in case are two users.
    ///
    /// ```
    /// use tonic_idempotency::{UserId, layer::InvalidCallerId};
    ///
    /// let user = UserId::from_text("auth0|5f7c8ec7")?;
    /// assert_eq!(user.as_uuid(), None);
    ///
    /// let id = uuid::Uuid::from_u128(7);
    /// assert_eq!(UserId::from_text(&id.to_string())?, UserId::new(id));
    /// # Ok::<(), InvalidCallerId>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidCallerId`] if the text is empty or longer than 255 bytes.
    pub fn from_text(id: &str) -> Result<Self, InvalidCallerId> {
        Id::from_text(id).map(Self)
    }

    /// Returns the user's id if it is a UUID.
    pub fn as_uuid(&self) -> Option<&Uuid> {
        self.0.as_uuid()
    }

    /// Returns the user's id as a text.
    pub fn to_text(&self) -> Cow<'_, str> {
        self.0.to_text()
    }
}

/// Omits the id, to keep it out of logs.
impl fmt::Debug for UserId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserId(..)")
    }
}
