//! The caller of a call, as the application knows it: a user in a scope, or in none.

use super::{OwnerId, Scope, UserId};

/// The caller of a call: a user, and the scope that the user acts in, if there is one.
///
/// ```
/// use tonic_idempotency::{Caller, Scope, UserId, layer::InvalidCallerId};
///
/// let user = UserId::from_text("auth0|5f7c8ec7")?;
/// let [acme, globex] = ["acme", "globex"].map(|tenant| Scope::from_text(tenant).expect("a scope"));
/// let at_acme = Caller::new(user.clone()).in_scope(acme);
/// let at_globex = Caller::new(user).in_scope(globex);
/// assert_ne!(at_acme.owner(), at_globex.owner());
/// # Ok::<(), InvalidCallerId>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Caller {
    /// The user.
    pub user: UserId,
    /// The scope that the user acts in; `None` if the application has no scopes, or this call is in none.
    pub scope: Option<Scope>,
}

impl Caller {
    /// Creates a caller: this user, in no scope.
    pub fn new(user: UserId) -> Self {
        Self { user, scope: None }
    }

    /// Sets the scope.
    pub fn in_scope(self, scope: Scope) -> Self {
        Self { scope: Some(scope), ..self }
    }

    /// Returns the owner of the caller's records. See [`OwnerId`].
    pub fn owner(&self) -> OwnerId {
        OwnerId::of(&self.user, self.scope.as_ref())
    }
}

impl From<UserId> for Caller {
    fn from(user: UserId) -> Self {
        Self::new(user)
    }
}
