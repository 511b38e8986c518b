//! A resource that a call created.

use super::ResourceId;

/// A resource that a call created.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a name and an id: built by stores and by tests")]
pub struct Resource {
    /// The name of its type, such as `project`.
    pub resource_type: String,
    /// Its id.
    pub id: ResourceId,
}
