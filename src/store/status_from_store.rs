//! A store as a status resolver.

use super::{Store, StoreError};
use crate::{
    status::{OutboxStatus, Resource, StatusResolver},
    user::UserId,
};

/// Asks a [`Store`] for statuses in a round trip of its own: for records that live in one store while the outbox is in
/// another.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "a wrapper of a store and nothing else")]
pub struct StatusFromStore<S>(pub S);

impl<S: Store> StatusResolver for StatusFromStore<S> {
    type Error = StoreError;

    async fn status(&self, user: UserId, resource: &Resource) -> Result<Option<OutboxStatus>, Self::Error> {
        self.0.status(user, resource).await
    }
}
