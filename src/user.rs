//! The user of a call, and how the layer finds it.

use std::fmt;

use http::{Extensions, HeaderMap};
use uuid::Uuid;

/// The authenticated user that a key belongs to. Two users can use the same key without affecting each other.
///
/// The id must not come from unauthenticated input. An authentication interceptor in front of the layer inserts it into
/// the request's extensions.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct UserId(Uuid);

impl UserId {
    /// Creates the user with this id.
    pub fn new(id: Uuid) -> Self {
        Self(id)
    }

    /// Returns the user's id as it is stored.
    pub fn as_uuid(&self) -> &Uuid {
        &self.0
    }
}

/// Omits the id, to keep it out of logs.
impl fmt::Debug for UserId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserId(..)")
    }
}

/// Finds the authenticated user of a request.
///
/// Default: [`UserFromExtensions`], which returns the [`UserId`] in the request's extensions.
///
/// ```
/// use tonic_idempotency::{UserId, layer::{UserFromExtensions, UserResolver}};
///
/// let alice = UserId::new(uuid::Uuid::from_u128(1));
/// let mut extensions = http::Extensions::new();
/// extensions.insert(alice);
/// assert_eq!(UserFromExtensions.user(&http::HeaderMap::new(), &extensions), Some(alice));
/// ```
///
/// Customised: a closure that reads what the application's own interceptor inserted.
///
/// ```
/// use tonic_idempotency::{UserId, layer::UserResolver};
///
/// #[derive(Clone)]
/// struct Claims { subject: uuid::Uuid }
///
/// let from_claims = |_: &http::HeaderMap, extensions: &http::Extensions| {
///     extensions.get::<Claims>().map(|claims| UserId::new(claims.subject))
/// };
///
/// let mut extensions = http::Extensions::new();
/// assert_eq!(from_claims.user(&http::HeaderMap::new(), &extensions), None);
/// extensions.insert(Claims { subject: uuid::Uuid::from_u128(7) });
/// assert_eq!(from_claims.user(&http::HeaderMap::new(), &extensions), Some(UserId::new(uuid::Uuid::from_u128(7))));
/// ```
pub trait UserResolver: Send + Sync + 'static {
    /// Returns the user; `None` if no user is authenticated.
    fn user(&self, headers: &HeaderMap, extensions: &Extensions) -> Option<UserId>;
}

impl<F> UserResolver for F
where
    F: Fn(&HeaderMap, &Extensions) -> Option<UserId> + Send + Sync + 'static,
{
    fn user(&self, headers: &HeaderMap, extensions: &Extensions) -> Option<UserId> {
        self(headers, extensions)
    }
}

/// Returns the [`UserId`] that an authentication interceptor inserted into the request's extensions. The default.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "a unit struct, used as a value")]
pub struct UserFromExtensions;

impl UserResolver for UserFromExtensions {
    fn user(&self, _headers: &HeaderMap, extensions: &Extensions) -> Option<UserId> {
        extensions.get().copied()
    }
}
