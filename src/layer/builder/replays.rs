//! The settings of replays: their authorization, contents and sources.

use std::time::Duration;

use super::IdempotencyLayerBuilder;
use crate::{
    policy::{self, Rebuilder, ReplayAuthorizer, ReplayedMetadata},
    status::StatusResolver,
};

impl IdempotencyLayerBuilder {
    /// Sets the authorizer that decides whether a caller gets a replay. By default every caller gets it, because the first
    /// call was made by the same user in the same scope. For other rules of one procedure, the authorizer looks at
    /// [`ReplayRequest::procedure`](crate::policy::ReplayRequest::procedure).
    pub fn authorize_replay(mut self, authorizer: impl ReplayAuthorizer) -> Self {
        self.replay_hooks.set_authorizer(authorizer);
        self
    }

    /// Makes the replays of the procedure with this path from the current state of the resource, in place of copies of the
    /// first response, which is not stored. The path's leading slash is optional. The procedure has to create a resource
    /// ([`ProcedureBuilder::creates`](crate::policy::ProcedureBuilder::creates)). Defaults to copies.
    ///
    /// If the response of the first call has no id of a resource, a retry is refused with
    /// `IDEMPOTENCY_RESPONSE_NOT_STORED`.
    pub fn rebuild(mut self, procedure: impl Into<String>, rebuilder: impl Rebuilder) -> Self {
        self.replay_hooks.rebuild_of(policy::path(procedure.into()), rebuilder);
        self
    }

    /// Sets the time that an authorizer or a rebuilder may take for one replay. Defaults to 5 seconds. Only for tests.
    #[doc(hidden)]
    pub fn replay_hook_timeout(mut self, timeout: Duration) -> Self {
        self.replay_hooks.set_timeout(timeout);
        self
    }

    /// Selects the handler's response metadata that replays contain. Defaults to [`ReplayedMetadata::custom`].
    pub fn replayed_metadata(mut self, metadata: ReplayedMetadata) -> Self {
        self.replayed_metadata = metadata;
        self
    }

    /// Sets the minimum size of a message that is compressed in a replay, in bytes. Defaults to 1 KiB. Only for tests.
    #[doc(hidden)]
    pub fn compress_replays_from(mut self, bytes: usize) -> Self {
        self.compress_replays_from = bytes;
        self
    }

    /// Sets the size of the replay cache, in bytes of memory; 0 turns it off. Defaults to 8 MiB.
    ///
    /// The layer caches a replay from the store if the replay does not normally change while its record lives: its
    /// status is `completed` or `failed`, or it is a final error ([`FinalErrors`](crate::policy::FinalErrors)). From
    /// then on the same call (user, scope, key, procedure and request) gets it without a round trip, even if the store is
    /// unavailable, until the record expires or a minute has passed. Within that time the layer can miss two kinds of changes: a record that
    /// was changed or deleted by hand, and a final status that is no longer final, because a failed job was restarted or the resource got
    /// newer work.
    ///
    /// The size counts messages, metadata and bookkeeping. It is an estimate, usually too high. Rarely used replays are
    /// evicted. A replay larger than a sixteenth of the cache is not cached.
    pub fn replay_cache_bytes(mut self, bytes: usize) -> Self {
        self.replay_cache_bytes = bytes;
        self
    }

    /// Sets how long the layer replays from its cache before it asks the store again; zero for never. Defaults to 1 minute. Only
    /// for tests.
    #[doc(hidden)]
    pub fn replay_cache_max_age(mut self, max_age: Duration) -> Self {
        self.replay_cache_max_age = max_age;
        self
    }

    /// Sets how the layer finds out the status of created resources. Defaults to the status that the store's claim
    /// returns, if its resource types are [tracked](crate::store::ResourceType::tracked).
    ///
    /// A replay waits for its status for 250 milliseconds, and reports `processing` after that, with a warning in the log. The store asks for the
    /// status together with the claim, and waits for at most a quarter of its `timeout`. If that takes longer, the claim is sent again without
    /// it, on another connection; while a quarter of the pool waits for statuses that are overdue, further claims do not ask for theirs.
    pub fn status_resolver(mut self, resolver: impl StatusResolver) -> Self {
        self.status_resolver = Some(Box::new(resolver));
        self
    }
}
