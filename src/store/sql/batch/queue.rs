//! Queues the calls that wait for the next batch.

use std::{
    collections::{HashSet, VecDeque},
    mem,
    sync::Arc,
};

use tokio::{sync::oneshot, time::Instant};
use uuid::Uuid;

use super::kind::Kind;
use crate::{
    caller::OwnerId,
    key::KeyId,
    store::{
        Reservation,
        sql::answers::{Fault, OperationProgress, SentClaim, WaitingAttempt},
    },
};

/// The number of calls that may be queued, and the bytes that they may have.
const MAX_CALLS: usize = 8192;
const MAX_BYTES: usize = 8 << 20;

/// The most bytes of a statement. A larger item is sent alone.
pub(super) const MAX_STATEMENT: usize = 256 << 10;

/// The number of calls that an empty queue has room for.
pub(super) const ROOM: usize = 64;

/// The answer to a call that has waited.
pub(super) enum QueueAnswer<S, K: Kind> {
    /// No other call waits: it is sent alone.
    Alone(S),
    /// The answer of the batch; `None` if the call has to be sent alone after all.
    Together(Option<K::Answer>),
    /// The batch has failed; `None` if it was not sent.
    Failed(Option<Fault>),
}

/// Calls that wait for the next statement, in the order of their arrival.
pub(super) struct Queue<S, K: Kind> {
    calls: VecDeque<QueuedCall<S, K>>,
    bytes: usize,
}

/// A call that waits. If it is dropped, the call is sent alone.
pub(super) struct QueuedCall<S, K: Kind> {
    pub(super) item: K::Item,
    bytes: usize,
    stage: Stage,
    answer: oneshot::Sender<QueueAnswer<S, K>>,
}

/// The stage of a call.
enum Stage {
    Waits(WaitingAttempt),
    /// It was sent, and may reserve a key.
    Claims(SentClaim),
    /// It was sent, or is not to be sent any more.
    Done(Arc<OperationProgress>),
}

impl<S, K: Kind> Queue<S, K> {
    pub(super) fn new() -> Self {
        Self { calls: VecDeque::new(), bytes: 0 }
    }

    #[cfg(test)]
    pub(super) fn len_and_capacity(&self) -> (usize, usize) {
        (self.calls.len(), self.calls.capacity())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Adds a call, unless the queue is full.
    pub(super) fn push(&mut self, call: QueuedCall<S, K>) -> Result<(), QueuedCall<S, K>> {
        if !self.has_room_for(&call) {
            self.purge();
            if !self.has_room_for(&call) {
                return Err(call);
            }
        }
        self.bytes += call.bytes;
        self.calls.push_back(call);
        Ok(())
    }

    /// Takes the only call, if there is only one.
    pub(super) fn take_only(&mut self) -> Option<QueuedCall<S, K>> {
        if self.calls.len() > ROOM {
            return None;
        }
        self.purge();
        if self.calls.len() == 1 { self.clear().calls.pop_front() } else { None }
    }

    /// Takes the calls of the next statement: the first one, and those that may share it. A statement has each key and each token at most
    /// once.
    pub(super) fn take(&mut self, max: usize) -> Vec<QueuedCall<S, K>> {
        let mut taken: Vec<QueuedCall<S, K>> = Vec::with_capacity(max.min(self.calls.len()));
        let mut left = Vec::new();
        let mut keys: HashSet<(OwnerId, KeyId)> = HashSet::with_capacity(taken.capacity());
        let mut tokens: HashSet<Uuid> = HashSet::with_capacity(taken.capacity());
        let mut bytes = 0;
        while taken.len() < max
            && let Some(call) = self.calls.pop_front()
        {
            let Reservation { owner, key, token } = *K::reservation(&call.item);
            if call.answer.is_closed() {
                self.bytes -= call.bytes;
            } else if taken.iter().all(|other| K::may_share(&other.item, &call.item))
                && bytes + call.bytes <= MAX_STATEMENT
                && !keys.contains(&(owner, key))
                && tokens.insert(token)
            {
                keys.insert((owner, key));
                self.bytes -= call.bytes;
                bytes += call.bytes;
                taken.push(call);
            } else {
                left.push(call);
            }
        }
        left.into_iter().rev().for_each(|call| self.calls.push_front(call));
        self.give_room_back();
        taken
    }

    /// Takes everything.
    pub(super) fn clear(&mut self) -> Self {
        mem::replace(self, Self::new())
    }

    fn has_room_for(&self, call: &QueuedCall<S, K>) -> bool {
        self.calls.len() < MAX_CALLS && self.bytes + call.bytes <= MAX_BYTES
    }

    /// Removes the calls that have gone away.
    fn purge(&mut self) {
        self.calls.retain(|call| !call.answer.is_closed());
        self.bytes = self.calls.iter().map(|call| call.bytes).sum();
    }

    fn give_room_back(&mut self) {
        if self.calls.is_empty() {
            self.calls.shrink_to(ROOM);
        }
    }
}

impl<S, K: Kind> QueuedCall<S, K> {
    /// Makes a call that waits, and the receiver of its answer.
    pub(super) fn new(
        item: K::Item,
        progress: &Arc<OperationProgress>,
    ) -> (Self, oneshot::Receiver<QueueAnswer<S, K>>) {
        let (answer, answered) = oneshot::channel();
        let (bytes, stage) = (K::bytes(&item), Stage::Waits(WaitingAttempt::new(progress)));
        (Self { item, bytes, stage, answer }, answered)
    }

    /// Notes that the call is about to be sent, together with others, and may reserve a key until this time. Returns whether it still
    /// may be.
    pub(super) fn sends(&mut self, until: Instant) -> bool {
        let progress = Arc::clone(self.progress());
        let may_send = progress.sends_together();
        self.stage = if may_send && K::WRITES {
            progress.claims_until(until);
            Stage::Claims(SentClaim::of(&progress))
        } else {
            Stage::Done(progress)
        };
        may_send
    }

    /// Takes the claim that may have reserved a key, before the call is told that its answer is lost.
    pub(super) fn take_claim(&mut self) -> Option<SentClaim> {
        let progress = Arc::clone(self.progress());
        match mem::replace(&mut self.stage, Stage::Done(progress)) {
            Stage::Claims(claim) => Some(claim),
            Stage::Waits(_) | Stage::Done(_) => None,
        }
    }

    pub(super) fn answer(self, answer: QueueAnswer<S, K>) {
        if matches!(answer, QueueAnswer::Together(_)) {
            self.progress().server_answers();
        }
        if let Stage::Claims(claim) = self.stage {
            claim.answered();
        }
        // A call that has gone away needs no answer.
        let _ = self.answer.send(answer);
    }

    fn progress(&self) -> &Arc<OperationProgress> {
        match &self.stage {
            Stage::Waits(waiting) => waiting.progress(),
            Stage::Claims(claim) => claim.progress(),
            Stage::Done(progress) => progress,
        }
    }
}
