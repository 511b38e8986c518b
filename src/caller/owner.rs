//! The owner of a record, derived from the user and the scope of its caller.

use std::fmt;

use sha2::{Digest as _, Sha256};
use uuid::{Builder, Uuid};

use super::{Scope, UserId};

/// The first input of the hash, so that no hash for another purpose is equal.
const DOMAIN: &[u8] = b"tonic-idempotency owner v1";

/// The owner of a record, as it is stored (the column `user_id`), derived from its [`Caller`](super::Caller):
///
/// | the user | the scope | the owner |
/// |---|---|---|
/// | a UUID | none | the user's own UUID |
/// | a UUID | one | a UUIDv8 (RFC 9562) made of a hash of both |
/// | a text | one or none | the same |
///
/// The hash is the SHA-256 of the text `tonic-idempotency owner v1`, the length of the scope, the scope, the length of
/// the user, and the user. Both are texts, a UUID in its usual form; a length is of bytes, in four bytes, the highest
/// first. The length of no scope is 0. The owner is the first 16 bytes of the hash with the version and the variant set.
/// The SQL function `tenant.idempotency_owner(scope, user)` returns the same.
///
/// ```
/// use tonic_idempotency::{Caller, Scope, UserId, layer::InvalidCallerId};
///
/// let id = uuid::Uuid::from_u128(7);
/// assert_eq!(Caller::new(UserId::new(id)).owner().as_uuid(), &id);
///
/// let caller = Caller::new(UserId::from_text("auth0|5f7c8ec7")?).in_scope(Scope::from_text("acme")?);
/// assert_eq!(caller.owner().as_uuid().get_version_num(), 8);
/// # Ok::<(), InvalidCallerId>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct OwnerId(Uuid);

impl OwnerId {
    /// Makes the owner from its id, as it is stored.
    pub fn new(id: Uuid) -> Self {
        Self(id)
    }

    pub(super) fn of(user: &UserId, scope: Option<&Scope>) -> Self {
        match (user.as_uuid(), scope) {
            (Some(id), None) => Self(*id),
            _ => Self(hashed(user, scope)),
        }
    }

    /// Returns the id as it is stored.
    pub fn as_uuid(&self) -> &Uuid {
        &self.0
    }
}

/// Omits the id, to keep it out of logs.
impl fmt::Debug for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnerId(..)")
    }
}

fn hashed(user: &UserId, scope: Option<&Scope>) -> Uuid {
    let scope = scope.map(|scope| scope.to_text()).unwrap_or_default();
    let mut hash = Sha256::new_with_prefix(DOMAIN);
    for text in [scope, user.to_text()] {
        // At most 255 bytes.
        hash.update((text.len() as u32).to_be_bytes());
        hash.update(text.as_bytes());
    }
    let mut id = [0; 16];
    id.copy_from_slice(&hash.finalize()[..16]);
    Builder::from_custom_bytes(id).into_uuid()
}
