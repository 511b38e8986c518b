//! The report of a shutdown.

use std::time::Duration;

use tokio::time::Instant;

use crate::{caller::OwnerId, engine::call::ProtectedCall, key::KeyId, policy::Mode};

/// The report of [`IdempotencyLayer::shutdown`](crate::IdempotencyLayer::shutdown).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
#[must_use = "it says which calls were cut off"]
pub struct Shutdown {
    /// The calls that still ran when the time was up; empty if all have ended.
    pub unfinished: Vec<UnfinishedCall>,
}

/// A call that still ran when a shutdown ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UnfinishedCall {
    /// The path of its procedure.
    pub procedure: String,
    /// The owner of its record.
    pub owner: OwnerId,
    /// Its key. In reserved mode it stays reserved until its lease ends; of a transactional call nothing is left.
    pub key: KeyId,
    /// The mode of its procedure.
    pub mode: Mode,
    /// Its stage when the time was up.
    pub stage: Stage,
    /// The time that it has spent in this stage.
    pub since: Duration,
}

/// The stage of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// Asks the store for its key, or a reconciler how the call ended that held the key before. Its handler does not run.
    Claiming,
    /// Runs its handler.
    Handler,
    /// Its handler has ended, and its outcome is not recorded yet, because the store does not answer.
    Recording,
}

impl UnfinishedCall {
    pub(in crate::engine) fn new(call: &ProtectedCall, stage: Stage, since: Instant) -> Self {
        Self {
            procedure: call.procedure.path().to_owned(),
            owner: call.reservation.owner,
            key: call.reservation.key,
            mode: call.procedure.policies().mode,
            stage,
            since: since.elapsed(),
        }
    }
}
