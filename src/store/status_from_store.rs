//! [`StatusFromStore`].

use super::{Store, StoreError};
use crate::{
    status::{OutboxStatus, Resource, StatusResolver},
    user::UserId,
};

/// A [`StatusResolver`] that reads statuses from a [`Store`], in one more round trip for each replay: for an outbox
/// that is in a different store from the records.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "a wrapper of a store and nothing else")]
pub struct StatusFromStore<S>(pub S);

impl<S: Store> StatusResolver for StatusFromStore<S> {
    type Error = StoreError;

    async fn status(&self, user: UserId, resource: &Resource) -> Result<Option<OutboxStatus>, Self::Error> {
        self.0.status(user, resource).await
    }
}
