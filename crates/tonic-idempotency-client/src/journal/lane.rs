//! The settings of a single call for the journal, in the extensions of its request.

use std::{fmt, sync::Arc};

/// An order of calls: put it into the extensions of a request. The entries of one lane are sent one after the other, in the order in
/// which they were written. A call waits for its turn until its deadline; then it fails, and its entry is sent when its turn comes.
///
/// ```
/// use tonic::Request;
/// use tonic_idempotency_client::journal::Lane;
///
/// let mut request = Request::new(());
/// request.extensions_mut().insert(Lane::new("account-7"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(Arc<str>);

/// The user that an operation is sent as: put it into the extensions of a request if one journal serves several users. A key
/// protects only the calls of one user, so an entry has to be sent again as the same user.
///
/// A request that is resumed has it in its extensions, so that an interceptor *inside* the layer finds the credentials to add.
///
/// ```
/// use tonic::{Request, Status};
/// use tonic_idempotency_client::journal::Principal;
///
/// fn authenticate(mut request: Request<()>) -> Result<Request<()>, Status> {
///     let principal = request.extensions().get::<Principal>().map_or("default", Principal::as_str);
///     let token = format!("Bearer token-of-{principal}");
///     request.metadata_mut().insert("authorization", token.parse().expect("visible ASCII"));
///     Ok(request)
/// }
/// # let mut request = Request::new(());
/// # request.extensions_mut().insert(Principal::new("alice"));
/// # assert_eq!(authenticate(request).unwrap().metadata().get("authorization").unwrap(), "Bearer token-of-alice");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Principal(Arc<str>);

impl Lane {
    /// Returns the lane with this name.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Principal {
    /// Returns the principal with this name.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
