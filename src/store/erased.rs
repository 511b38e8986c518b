//! Erases the type of a store.

use std::{pin::Pin, time::Duration};

use super::{
    AbandonOutcome, AbandonedKey, AbandonedQuery, BeginOutcome, CallSession, Claim, ClaimOutcome, CompleteOutcome,
    Completion, ExtendOutcome, KeyRecord, LookUp, ReleaseOutcome, Reservation, ResourceTypes, ServerClock, Store,
    StoreError, StoreSettings, StoreTransaction, TransactionCapacity, TransactionOptions,
};
use crate::caller::OwnerId;

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// An object-safe [`Store`], so that the type of the layer does not depend on the type of its store.
pub(crate) trait DynStore: Send + Sync {
    fn claim<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, ClaimOutcome>;

    fn extend<'a>(&'a self, reservation: &'a Reservation, lease: Duration) -> BoxFuture<'a, ExtendOutcome>;

    fn complete<'a>(
        &'a self,
        reservation: &'a Reservation,
        completion: &'a Completion,
    ) -> BoxFuture<'a, CompleteOutcome>;

    fn release<'a>(&'a self, reservation: &'a Reservation) -> BoxFuture<'a, ReleaseOutcome>;

    fn abandon<'a>(&'a self, reservation: &'a Reservation) -> BoxFuture<'a, AbandonOutcome>;

    fn abandoned<'a>(&'a self, search: &'a AbandonedQuery) -> BoxFuture<'a, Vec<AbandonedKey>>;

    fn look_up<'a>(&'a self, look_up: &'a LookUp) -> BoxFuture<'a, KeyRecord>;

    fn limits_records(&self) -> bool;

    fn set_up(&self, settings: &StoreSettings);

    fn transaction_capacity(&self) -> Option<TransactionCapacity>;

    fn resource_types(&self) -> Option<&ResourceTypes>;

    fn server_clock(&self) -> Option<&ServerClock>;

    fn has_statuses(&self) -> bool;

    fn has_transactions(&self) -> bool;

    fn begin<'a>(&'a self, claim: &'a Claim, options: TransactionOptions) -> BoxFuture<'a, BeginOutcome>;

    fn begin_without_key<'a>(
        &'a self,
        owner: Option<OwnerId>,
        session: &'a CallSession,
        options: TransactionOptions,
    ) -> BoxFuture<'a, Box<dyn StoreTransaction>>;
}

impl<S: Store> DynStore for S {
    fn claim<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, ClaimOutcome> {
        Box::pin(Store::claim(self, claim))
    }

    fn extend<'a>(&'a self, reservation: &'a Reservation, lease: Duration) -> BoxFuture<'a, ExtendOutcome> {
        Box::pin(Store::extend(self, reservation, lease))
    }

    fn complete<'a>(
        &'a self,
        reservation: &'a Reservation,
        completion: &'a Completion,
    ) -> BoxFuture<'a, CompleteOutcome> {
        Box::pin(Store::complete(self, reservation, completion))
    }

    fn release<'a>(&'a self, reservation: &'a Reservation) -> BoxFuture<'a, ReleaseOutcome> {
        Box::pin(Store::release(self, reservation))
    }

    fn abandon<'a>(&'a self, reservation: &'a Reservation) -> BoxFuture<'a, AbandonOutcome> {
        Box::pin(Store::abandon(self, reservation))
    }

    fn abandoned<'a>(&'a self, search: &'a AbandonedQuery) -> BoxFuture<'a, Vec<AbandonedKey>> {
        Box::pin(Store::abandoned(self, search))
    }

    fn look_up<'a>(&'a self, look_up: &'a LookUp) -> BoxFuture<'a, KeyRecord> {
        Box::pin(Store::look_up(self, look_up))
    }

    fn limits_records(&self) -> bool {
        Store::limits_records(self)
    }

    fn set_up(&self, settings: &StoreSettings) {
        Store::set_up(self, settings);
    }

    fn transaction_capacity(&self) -> Option<TransactionCapacity> {
        Store::transaction_capacity(self)
    }

    fn resource_types(&self) -> Option<&ResourceTypes> {
        Store::resource_types(self)
    }

    fn server_clock(&self) -> Option<&ServerClock> {
        Store::server_clock(self)
    }

    fn has_statuses(&self) -> bool {
        Store::has_statuses(self)
    }

    fn has_transactions(&self) -> bool {
        Store::has_transactions(self)
    }

    fn begin<'a>(&'a self, claim: &'a Claim, options: TransactionOptions) -> BoxFuture<'a, BeginOutcome> {
        Box::pin(Store::begin(self, claim, options))
    }

    fn begin_without_key<'a>(
        &'a self,
        owner: Option<OwnerId>,
        session: &'a CallSession,
        options: TransactionOptions,
    ) -> BoxFuture<'a, Box<dyn StoreTransaction>> {
        Box::pin(Store::begin_without_key(self, owner, session, options))
    }
}
