use std::pin::Pin;

use super::{
    Claim, ClaimOutcome, CompleteOutcome, Completion, ReleaseOutcome, Reservation, ResourceTypes, Store, StoreError,
};

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A [`Store`] whose type is not known: so that the layer's type does not name it.
pub(crate) trait DynStore: Send + Sync {
    fn claim<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<ClaimOutcome, StoreError>>;

    fn complete<'a>(
        &'a self,
        reservation: &'a Reservation,
        completion: &'a Completion,
    ) -> BoxFuture<'a, Result<CompleteOutcome, StoreError>>;

    fn release<'a>(&'a self, reservation: &'a Reservation) -> BoxFuture<'a, Result<ReleaseOutcome, StoreError>>;

    fn resource_types(&self) -> Option<&ResourceTypes>;
}

impl<S: Store> DynStore for S {
    fn claim<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<ClaimOutcome, StoreError>> {
        Box::pin(Store::claim(self, claim))
    }

    fn complete<'a>(
        &'a self,
        reservation: &'a Reservation,
        completion: &'a Completion,
    ) -> BoxFuture<'a, Result<CompleteOutcome, StoreError>> {
        Box::pin(Store::complete(self, reservation, completion))
    }

    fn release<'a>(&'a self, reservation: &'a Reservation) -> BoxFuture<'a, Result<ReleaseOutcome, StoreError>> {
        Box::pin(Store::release(self, reservation))
    }

    fn resource_types(&self) -> Option<&ResourceTypes> {
        Store::resource_types(self)
    }
}
