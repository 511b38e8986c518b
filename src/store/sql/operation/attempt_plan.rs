//! How an attempt of an operation is made.

use crate::store::Claim;

/// An attempt that is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store::sql) struct AttemptPlan {
    /// Whether to ask for the status of the created resource.
    pub(in crate::store::sql) with_status: bool,
    /// Whether it may be sent in a batch with attempts of other operations. Only the first attempt may.
    pub(in crate::store::sql) together: bool,
    /// Whether another attempt has not answered: then it is not known whether the server can be asked.
    pub(super) in_doubt: bool,
}

impl AttemptPlan {
    /// Returns the resource type whose status to ask for.
    pub(in crate::store::sql) fn status_of(self, claim: &Claim) -> Option<&str> {
        claim.resource_type.as_deref().filter(|_| self.with_status)
    }

    pub(super) fn alone(self) -> Self {
        Self { together: false, ..self }
    }

    pub(super) fn without_status(self) -> Self {
        Self { with_status: false, ..self }
    }
}
