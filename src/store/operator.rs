//! What operators do with keys: [`OperatorStore`].

use uuid::Uuid;

use super::StoreError;
use crate::{caller::OwnerId, key::KeyId};

/// A store that can release the keys of others, for operators. Its connections log in as another role than those of the layer's store,
/// which must not be able to: `migrations::grant_operator` grants that role its rights.
///
/// `SqlStore` is one, on a pool of that role, and [`MemoryStore`](super::MemoryStore) for tests.
pub trait OperatorStore: Send + Sync + 'static {
    /// Takes a key from the call that holds it with this token, so that a retry runs at once. Takes no outcome away, and ends no
    /// transaction. PostgreSQL notes each release in `tenant.idempotency_audit`.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store does not answer, or refuses: the role may not release keys. The key may have been released all the
    /// same: [`StoreError::may_have_happened`].
    fn operator_release(
        &self,
        release: &OperatorRelease,
    ) -> impl Future<Output = Result<OperatorReleaseOutcome, StoreError>> + Send;
}

/// The release of a key by an operator.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "built by the authors of stores, in stores and in their tests")]
pub struct OperatorRelease {
    /// The owner of the key.
    pub owner: OwnerId,
    /// The key.
    pub key: KeyId,
    /// The token of the call that holds the key; `None` for a reservation of another system, which has none.
    pub token: Option<Uuid>,
    /// Why, for the note.
    pub reason: String,
}

/// The outcome of a release by an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the outcomes of one statement: an operator is told of each")]
pub enum OperatorReleaseOutcome {
    /// The key is free.
    Released,
    /// There was nothing to release.
    Absent,
    /// The key is held, but not with this token. Nothing changed.
    OtherToken,
    /// A transaction holds the key. Nothing changed.
    Running,
    /// The call has an outcome, which stays. Nothing changed.
    Ended,
}
