//! Finds the authenticated caller of a request: by default, in its extensions.

use std::error::Error;

use http::{Extensions, HeaderMap};

use super::{Caller, UserId};

type BoxError = Box<dyn Error + Send + Sync>;

/// Finds the authenticated caller of a request.
///
/// Default: [`CallerFromExtensions`], which returns the [`Caller`] or the [`UserId`] in the request's extensions.
///
/// ```
/// use tonic_idempotency::{Caller, UserId, layer::{CallerFromExtensions, CallerResolver}};
///
/// let alice = UserId::new(uuid::Uuid::from_u128(1));
/// let mut extensions = http::Extensions::new();
/// extensions.insert(alice.clone());
/// let caller = CallerFromExtensions.caller(&http::HeaderMap::new(), &extensions)?;
/// assert_eq!(caller, Some(Caller::new(alice)));
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
///
/// Customised: a closure that reads what the application's own interceptor inserted.
///
/// ```
/// use tonic_idempotency::{Caller, Scope, UserId, layer::CallerResolver};
///
/// #[derive(Clone)]
/// struct Claims { subject: String, tenant: String }
///
/// let from_claims = |_: &http::HeaderMap, extensions: &http::Extensions| {
///     let Some(claims) = extensions.get::<Claims>() else { return Ok(None) };
///     let user = UserId::from_text(&claims.subject)?;
///     Ok(Some(Caller::new(user).in_scope(Scope::from_text(&claims.tenant)?)))
/// };
///
/// fn resolve(resolver: impl CallerResolver, extensions: &http::Extensions) -> Option<Caller> {
///     resolver.caller(&http::HeaderMap::new(), extensions).expect("ids that are not too long")
/// }
/// let mut extensions = http::Extensions::new();
/// assert_eq!(resolve(from_claims, &extensions), None);
/// extensions.insert(Claims { subject: "auth0|5f7c8ec7".to_owned(), tenant: "acme".to_owned() });
/// assert_eq!(resolve(from_claims, &extensions).unwrap().user.to_text(), "auth0|5f7c8ec7");
/// ```
pub trait CallerResolver: Send + Sync + 'static {
    /// Returns the caller; `None` if no user is authenticated.
    ///
    /// # Errors
    ///
    /// Any error that prevents an answer, such as an id that is too long. The call is refused with `INTERNAL`,
    /// `IDEMPOTENCY_CALLER_INVALID`, and the error is logged: it should not contain an id.
    fn caller(&self, headers: &HeaderMap, extensions: &Extensions) -> Result<Option<Caller>, BoxError>;
}

impl<F> CallerResolver for F
where
    F: Fn(&HeaderMap, &Extensions) -> Result<Option<Caller>, BoxError> + Send + Sync + 'static,
{
    fn caller(&self, headers: &HeaderMap, extensions: &Extensions) -> Result<Option<Caller>, BoxError> {
        self(headers, extensions)
    }
}

/// Returns the [`Caller`] that an authentication interceptor inserted into the request's extensions, or else the
/// [`UserId`] there, as a caller in no scope. The default.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "a unit struct, used as a value")]
pub struct CallerFromExtensions;

impl CallerResolver for CallerFromExtensions {
    fn caller(&self, _headers: &HeaderMap, extensions: &Extensions) -> Result<Option<Caller>, BoxError> {
        let user = || extensions.get::<UserId>().cloned().map(Caller::new);
        Ok(extensions.get::<Caller>().cloned().or_else(user))
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::caller::Scope;

    #[test]
    fn prefers_a_caller_to_a_user_in_the_extensions() {
        let [user, other] = [1, 2].map(|id| UserId::new(Uuid::from_u128(id)));
        let caller = Caller::new(user).in_scope(Scope::new(Uuid::nil()));
        let mut extensions = Extensions::new();
        extensions.insert(other);
        extensions.insert(caller.clone());
        let found = CallerFromExtensions.caller(&HeaderMap::new(), &extensions).expect("it does not fail");
        assert_eq!(found, Some(caller));
    }
}
