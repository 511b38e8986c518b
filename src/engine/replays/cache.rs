//! Replays that this process has given before, and may give again without asking the store.
//!
//! An entry is a replay that the store has answered, and that stays the same until its record expires: a final error, or a
//! response whose status is final. Most first calls are never retried, so that keeping their responses would cost memory for
//! nothing: a call's second replay is the first one from memory.

use std::{hash::RandomState, sync::Arc, time::Duration};

use protobuf_canonical::RequestHashes;
use quick_cache::{
    OptionsBuilder, Weighter,
    sync::{Cache, DefaultLifecycle},
};

use crate::{
    caller::OwnerId,
    engine::{
        call::ProtectedCall,
        replays::recorded::Recorded,
        time::{clock_reading::ClockReading, expiry::Expiry},
    },
    key::KeyId,
    policy::Procedure,
};

/// The number of shards, each with its own lock and its own part of the capacity.
const SHARDS: usize = 8;

/// The capacity divided by the size of the largest entry: an entry takes at most half of a shard.
const LARGEST_ENTRY: usize = 2 * SHARDS;

/// The usual size of an entry in bytes, to estimate their number.
const USUAL_ENTRY: usize = 2 << 10;

/// The size of an entry in the cache's own tables, in bytes: key, place and counts, and the trace of an evicted entry.
const OVERHEAD: usize = 128;

/// Final replays, by owner and key.
pub(crate) struct ReplayCache {
    /// `None` if the capacity is zero.
    entries: Option<Cache<Id, Arc<Entry>, Size, RandomState>>,
    /// The largest entry, in bytes.
    largest: usize,
    max_age: Duration,
}

type Id = (OwnerId, KeyId);

/// A replay, and the call that it belongs to.
struct Entry {
    procedure: Arc<Procedure>,
    request: RequestHashes,
    recorded: Recorded,
    size: usize,
}

impl ReplayCache {
    /// A cache of at most this many bytes, whose entries live at most `max_age`.
    pub(crate) fn new(bytes: usize, max_age: Duration) -> Self {
        let options = OptionsBuilder::new()
            .shards(SHARDS)
            .estimated_items_capacity(bytes / USUAL_ENTRY)
            .weight_capacity((bytes - bytes % SHARDS) as u64)
            // Retries come soon after one another, and entries expire: new entries get as much room as those in frequent use.
            .hot_allocation(0.5)
            .build();
        let cache = |options| Cache::with_options(options, Size, RandomState::new(), DefaultLifecycle::default());
        let entries = options.ok().filter(|_| bytes > 0).map(cache);
        Self { entries, largest: bytes / LARGEST_ENTRY, max_age }
    }

    /// The record of this call; `None` if the store has to be asked.
    pub(in crate::engine) fn get(&self, call: &ProtectedCall) -> Option<Recorded> {
        let entry = self.entries.as_ref()?.get(&id(call))?;
        (entry.is_of(call) && entry.is_live(ClockReading::now(), self.max_age)).then(|| entry.recorded.clone())
    }

    /// Caches a record, which must not change until it expires.
    pub(in crate::engine) fn keep(&self, call: &ProtectedCall, recorded: &Recorded) {
        let Some(entries) = &self.entries else { return };
        let size = OVERHEAD + size_of::<Entry>() + recorded.size();
        if size > self.largest {
            return self.forget(call);
        }
        let entry = Entry {
            procedure: Arc::clone(&call.procedure),
            request: call.request_hashes.clone(),
            recorded: recorded.clone(),
            size,
        };
        entries.insert(id(call), Arc::new(entry));
    }

    /// Removes the entry of a key, because the store has answered otherwise.
    pub(in crate::engine) fn forget(&self, call: &ProtectedCall) {
        if let Some(entries) = &self.entries {
            entries.remove(&id(call));
        }
    }

    /// Removes all entries.
    #[cfg(feature = "testing")]
    pub(crate) fn clear(&self) {
        if let Some(entries) = &self.entries {
            entries.clear();
        }
    }
}

impl Entry {
    fn is_of(&self, call: &ProtectedCall) -> bool {
        self.procedure.path() == call.procedure.path() && self.request.same_request(&call.request_hashes)
    }

    fn is_live(&self, now: ClockReading, max_age: Duration) -> bool {
        let is_live = |expiry: Expiry| expiry.left(now).is_some() && expiry.age(now).is_some_and(|age| age < max_age);
        self.recorded.expiry.is_some_and(is_live)
    }
}

/// Weighs entries by their size.
#[derive(Clone)]
struct Size;

impl Weighter<Id, Arc<Entry>> for Size {
    fn weight(&self, _: &Id, entry: &Arc<Entry>) -> u64 {
        entry.size as u64
    }
}

fn id(call: &ProtectedCall) -> Id {
    (call.reservation.owner, call.reservation.key)
}
