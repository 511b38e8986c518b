use std::time::Duration;

use tokio::time::Instant;

use crate::{IdempotencyKey, Mode, UserId, engine::call::Call};

/// What [`IdempotencyLayer::shut_down`](crate::IdempotencyLayer::shut_down) left behind.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[must_use = "it says which calls were cut off"]
pub struct Shutdown {
    /// The calls that still ran when the time was up; none where all have ended.
    pub left: Vec<LeftBehind>,
}

/// A call that a shutdown did not wait for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LeftBehind {
    /// The path of its procedure.
    pub procedure: String,
    /// Its user.
    pub user: UserId,
    /// Its key. A reserved one stays so until its lease ends; of a transactional one nothing is left.
    pub key: IdempotencyKey,
    /// The mode of its procedure.
    pub mode: Mode,
    /// What it was doing.
    pub stage: Stage,
    /// For how long.
    pub since: Duration,
}

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// It asks the store for its key, or a reconciler how the call ended that held it before. Its handler does not run.
    Claiming,
    /// Its handler runs.
    Handler,
    /// Its handler has ended, and its outcome is not recorded yet, because the store does not answer.
    Recording,
}

impl LeftBehind {
    pub(crate) fn new(call: &Call, stage: Stage, since: Instant) -> Self {
        Self {
            procedure: call.procedure.path().to_owned(),
            user: call.reservation.user,
            key: call.reservation.key,
            mode: call.procedure.policies().mode,
            stage,
            since: since.elapsed(),
        }
    }
}
