//! Resolves the statuses of resources through a store.

use super::{CallSession, Store, StoreError};
use crate::{
    caller::Caller,
    status::{OutboxStatus, Resource, StatusResolver},
};

/// A [`StatusResolver`] that reads statuses from a [`Store`], in one more round trip for each replay: for an outbox
/// that is in a different store from the records. Of the caller, that store is told the user, if the user's id is a
/// UUID, and nothing else.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "a wrapper of a store and nothing else")]
pub struct StatusFromStore<S>(pub S);

impl<S: Store> StatusResolver for StatusFromStore<S> {
    type Error = StoreError;

    async fn status(&self, caller: &Caller, resource: &Resource) -> Result<Option<OutboxStatus>, Self::Error> {
        self.0.status(&CallSession::of(caller), resource).await
    }
}
