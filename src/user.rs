use std::fmt;

use http::{Extensions, HeaderMap};
use uuid::Uuid;

/// The authenticated user that a key belongs to. Two users may use the same key without knowing of one another.
///
/// Never taken from what the client claims: an authentication interceptor in front of the layer puts it into the request's
/// extensions.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct UserId(Uuid);

impl UserId {
    /// The user with this id.
    pub fn new(id: Uuid) -> Self {
        Self(id)
    }

    /// The user's id as it is stored.
    pub fn as_uuid(&self) -> &Uuid {
        &self.0
    }
}

/// Shows nothing of the user: logs are read by others.
impl fmt::Debug for UserId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserId(..)")
    }
}

/// Finds the authenticated user of a request.
///
/// Default, [`UserFromExtensions`]: the [`UserId`] in the request's extensions.
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
/// Customised, with what an application's own interceptor left there:
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
    /// The user, or `None` where nobody is authenticated.
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

/// Takes the [`UserId`] that an authentication interceptor put into the request's extensions.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "a unit struct, used as a value")]
pub struct UserFromExtensions;

impl UserResolver for UserFromExtensions {
    fn user(&self, _headers: &HeaderMap, extensions: &Extensions) -> Option<UserId> {
        extensions.get().copied()
    }
}
