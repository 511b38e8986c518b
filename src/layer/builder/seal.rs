//! The settings of sealed records.

use super::IdempotencyLayerBuilder;
use crate::seal::{KeyRing, Sealer};

impl IdempotencyLayerBuilder {
    /// Seals the responses and the kept errors of records with these keys, and opens those that are sealed. Defaults to none: what is stored is
    /// in the open. All servers have to [open](Self::open_sealed) sealed records before the first one makes them: see [`seal`](crate::seal).
    ///
    /// A call whose keys cannot be asked for is refused, before it claims its key. Replays of sealed records are not kept in memory
    /// ([`replay_cache_bytes`](Self::replay_cache_bytes)): each asks the store.
    pub fn seal(mut self, keys: impl KeyRing) -> Self {
        self.sealer = Some(Sealer::new(keys, true));
        self
    }

    /// Opens records that are sealed with these keys, and makes none: for the deployment before the one that [seals](Self::seal), and for the
    /// time after the last one that did. Defaults to none.
    pub fn open_sealed(mut self, keys: impl KeyRing) -> Self {
        self.sealer = Some(Sealer::new(keys, false));
        self
    }
}
