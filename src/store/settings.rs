//! The settings of a layer that its store keeps.

use std::time::Duration;

use crate::policy::Limits;

/// How long a replay waits for the status of the created resource, from the store or from a resolver. A slower one is `processing`.
pub(crate) const STATUS_TIMEOUT: Duration = Duration::from_millis(250);

/// The settings of a layer that its store keeps: [`Store::set_up`](super::Store::set_up).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "built by the tests of stores")]
pub struct StoreSettings {
    /// The limits of the layer. A store keeps those of transactions and of records.
    pub limits: Limits,
}
