//! Replays that this process has given before, and may give again without asking the store.
//!
//! What goes in is a replay that the store has answered, and that will not change while the record lives: a final error, or a
//! response whose status is final. Most first calls are never retried, so that keeping their responses would cost each of them
//! memory for nothing: it is a call's second replay that asks nobody.

use std::{hash::RandomState, sync::Arc, time::Duration};

use quick_cache::{
    OptionsBuilder, Weighter,
    sync::{Cache, DefaultLifecycle},
};

use crate::{
    IdempotencyKey, Procedure, UserId,
    engine::{
        call::{Call, Recorded},
        clock_reading::Moment,
    },
};
use protobuf_canonical::RequestHash;

/// Each has its own lock, and its own part of the capacity.
const SHARDS: usize = 8;

/// An entry takes at most the whole divided by this: half of a shard.
const LARGEST_ENTRY: usize = 2 * SHARDS;

/// About the size of an entry in bytes, to guess how many there will be.
const USUAL_ENTRY: usize = 2 << 10;

/// What an entry takes in the cache's own tables, in bytes: its key, its place and its counts, and the trace of another that
/// was pushed out.
const PLACE: usize = 128;

/// Final replays, by user and key.
pub(crate) struct ReplayCache {
    /// `None` where there is no room for any.
    entries: Option<Cache<Id, Arc<Entry>, Size, RandomState>>,
    /// The largest entry, in bytes.
    largest: usize,
    max_age: Duration,
}

type Id = (UserId, IdempotencyKey);

/// A replay, and what call it is for.
struct Entry {
    procedure: Arc<Procedure>,
    request_hash: RequestHash,
    recorded: Recorded,
    /// When the store was asked, and for how long from then on its answer stands.
    asked: Moment,
    lives: Duration,
    size: usize,
}

impl ReplayCache {
    /// A cache that takes at most so many bytes, and gives nothing that the store was asked for longer ago.
    pub(crate) fn new(bytes: usize, max_age: Duration) -> Self {
        let options = OptionsBuilder::new()
            .shards(SHARDS)
            .estimated_items_capacity(bytes / USUAL_ENTRY)
            .weight_capacity((bytes - bytes % SHARDS) as u64)
            // Retries come soon after one another, and entries end by themselves: what is new has as much room as what is asked
            // for often.
            .hot_allocation(0.5)
            .build();
        let cache = |options| Cache::with_options(options, Size, RandomState::new(), DefaultLifecycle::default());
        let entries = options.ok().filter(|_| bytes > 0).map(cache);
        Self { entries, largest: bytes / LARGEST_ENTRY, max_age }
    }

    /// What is known to be recorded of this call; `None` where the store has to be asked.
    pub(crate) fn get(&self, call: &Call) -> Option<Recorded> {
        let entry = self.entries.as_ref()?.get(&id(call))?;
        (entry.is_of(call) && entry.is_live(Moment::now())).then(|| entry.recorded.clone())
    }

    /// Keeps what the store answered when it was asked at this moment, and what does not change while the record lives.
    pub(crate) fn keep(&self, call: &Call, recorded: &Recorded, asked: Moment, lives: Duration) {
        let Some(entries) = &self.entries else { return };
        let size = PLACE + size_of::<Entry>() + recorded.size();
        if size > self.largest {
            return self.forget(call);
        }
        let entry = Entry {
            procedure: Arc::clone(&call.procedure),
            request_hash: call.request_hash,
            recorded: recorded.clone(),
            asked,
            lives: lives.min(self.max_age),
            size,
        };
        entries.insert(id(call), Arc::new(entry));
    }

    /// Forgets what is kept of a key: the store says something else.
    pub(crate) fn forget(&self, call: &Call) {
        if let Some(entries) = &self.entries {
            entries.remove(&id(call));
        }
    }
}

impl Entry {
    fn is_of(&self, call: &Call) -> bool {
        self.procedure.path() == call.procedure.path() && self.request_hash == call.request_hash
    }

    fn is_live(&self, now: Moment) -> bool {
        self.asked.until(now).is_some_and(|age| age < self.lives)
    }
}

/// What an entry counts for.
#[derive(Clone)]
struct Size;

impl Weighter<Id, Arc<Entry>> for Size {
    fn weight(&self, _: &Id, entry: &Arc<Entry>) -> u64 {
        entry.size as u64
    }
}

fn id(call: &Call) -> Id {
    (call.reservation.user, call.reservation.key)
}
