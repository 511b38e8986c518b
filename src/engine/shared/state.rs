//! The state that the calls of one layer share.

use std::sync::Arc;

use crate::{
    engine::{
        answer::ResponseSettings,
        limits::{admission::Admission, backlog::Backlog, lines::Lines},
        replays::{cache::ReplayCache, hooks::ReplayHooks},
        shared::{reconcilers::Reconcilers, single_flight::SingleFlight, tracker::CallTracker},
        time::wall_clock::WallClock,
    },
    seal::Sealer,
    status::DynStatusResolver,
    store::DynStore,
    telemetry::Spans,
};

/// The state that the calls of one layer share.
pub(crate) struct Engine {
    pub(crate) store: Arc<dyn DynStore>,
    /// Reports the status of a resource; `None`: the store reports it with the claim.
    pub(crate) status_resolver: Option<Box<dyn DynStatusResolver>>,
    pub(crate) reconcilers: Reconcilers,
    pub(crate) replay_hooks: ReplayHooks,
    pub(crate) responses: ResponseSettings,
    /// The smallest message that is compressed in a replay, in bytes.
    pub(crate) compress_replays_from: usize,
    pub(crate) admission: Arc<Admission>,
    pub(crate) lines: Lines,
    /// The number of the pool of the store's transactions; 0 if they wait for no other ones.
    pub(crate) transaction_pool: u32,
    pub(crate) single_flight: Arc<SingleFlight>,
    pub(crate) replay_cache: ReplayCache,
    /// The outcomes that wait to be recorded.
    pub(crate) backlog: Arc<Backlog>,
    pub(crate) tracker: CallTracker,
    pub(crate) clock: WallClock,
    pub(crate) spans: Spans,
    /// Seals records and opens them; `None`: they are in the open.
    pub(crate) sealer: Option<Sealer>,
}
