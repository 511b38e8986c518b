//! The members of an object that have been read, to detect duplicates.

use std::{
    collections::HashSet,
    hash::{BuildHasher as _, Hash, RandomState},
};

/// Remembers a keyed hash of 64 bits for each member, which takes a tenth of the memory of the shortest names. In an object of a
/// million members, two different members collide once in ten million objects. The key is random, so collisions cannot be provoked.
#[derive(Default)]
pub(super) struct Seen {
    hasher: RandomState,
    hashes: HashSet<u64>,
}

impl Seen {
    /// Returns whether the member is new.
    pub(super) fn insert(&mut self, member: impl Hash) -> bool {
        self.hashes.insert(self.hasher.hash_one(member))
    }
}
