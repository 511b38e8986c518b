//! Sends the calls of a kind alone or in batches.

use std::{
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{
    runtime::Handle,
    task::yield_now,
    time::{Instant, timeout, timeout_at},
};

use super::{
    kind::Kind,
    queue::{MAX_STATEMENT, Queue, QueueAnswer, QueuedCall},
    refusals::Refusals,
    slots::{SLOW, Slots},
};
use crate::{
    store::sql::{
        answers::{Fault, OperationProgress, SentClaim, is_missing},
        connections::{Connections, Failure},
        driver::{Connection as _, ConnectionPool},
    },
    telemetry,
};

/// The calls of a kind. A call that finds fewer statements under way than there [may be](super::concurrency) is sent alone, at once. Others queue,
/// and share the next statement.
pub(in crate::store::sql) struct Lane<D: ConnectionPool, K: Kind>(Arc<Shared<D, K>>);

struct Shared<D: ConnectionPool, K: Kind> {
    name: &'static str,
    connections: Connections<D>,
    max_batch: usize,
    refusals: Refusals,
    state: Mutex<State<D, K>>,
}

struct State<D: ConnectionPool, K: Kind> {
    queue: Queue<Slot<D, K>, K>,
    slots: Slots,
    /// The number of calls of the last statement.
    last: usize,
}

/// The way in which a call is sent.
pub(in crate::store::sql) enum SendMode<D: ConnectionPool, K: Kind> {
    /// Alone. The slot, if there is one, is held until the single statement is answered.
    Alone(Option<Slot<D, K>>),
    /// Alone, because batches of this kind fail at the moment.
    Refused,
    /// In a batch, with its answer; `None` if it has to be sent alone after all.
    Together(Option<K::Answer>),
}

impl<D: ConnectionPool, K: Kind> Lane<D, K> {
    pub(super) fn new(name: &'static str, connections: &Connections<D>, max_batch: usize) -> Self {
        let state = Mutex::new(State { queue: Queue::new(), slots: Slots::default(), last: 1 });
        Self(Arc::new(Shared {
            name,
            connections: connections.clone(),
            max_batch,
            refusals: Refusals::default(),
            state,
        }))
    }

    /// Lets a call go alone, or waits for the answer of a batch.
    ///
    /// # Errors
    ///
    /// [`Failure::Together`] if the batch has failed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the call leaves the queue. If it was sent, it may be carried out.
    pub(in crate::store::sql) async fn enter(
        &self,
        progress: &Arc<OperationProgress>,
        item: impl FnOnce() -> K::Item,
    ) -> Result<SendMode<D, K>, Failure> {
        if !self.0.refusals.allow() {
            return Ok(SendMode::Refused);
        }
        if self.0.max_batch == 1 {
            return Ok(SendMode::Alone(None));
        }
        if let Some(slot) = self.slot_if_nobody_waits() {
            telemetry::calls_in_statement(self.0.name, 1);
            return Ok(SendMode::Alone(Some(slot)));
        }
        let item = item();
        if K::bytes(&item) > MAX_STATEMENT {
            return Ok(SendMode::Alone(None));
        }
        let (queued, mut answered) = QueuedCall::new(item, progress);
        let watched = {
            let mut state = self.state();
            if state.queue.push(queued).is_err() {
                return Ok(SendMode::Alone(None));
            }
            state.slots.have_batches()
        };
        loop {
            self.serve();
            // A task that serves the queue notices that its statement is slow. The caller of a single statement does not, so
            // this call looks at the queue again.
            let answered = if watched { Ok((&mut answered).await) } else { timeout(SLOW, &mut answered).await };
            match answered {
                Ok(Ok(QueueAnswer::Alone(slot))) => return Ok(SendMode::Alone(Some(slot))),
                Ok(Ok(QueueAnswer::Together(answer))) => return Ok(SendMode::Together(answer)),
                Ok(Ok(QueueAnswer::Failed(fault))) => return Err(Failure::Together { fault }),
                // The task that was to serve the queue has ended.
                Ok(Err(_)) => return Err(Failure::Together { fault: progress.is_sent().then_some(Fault::Lost) }),
                Err(_) => {}
            }
        }
    }

    /// Notes whether a statement of this kind was refused.
    pub(in crate::store::sql) fn note(&self, refused: bool) {
        self.0.refusals.note(refused);
    }

    #[cfg(test)]
    pub(super) fn queued(&self) -> usize {
        self.state().queue.len_and_capacity().0
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.state().queue.len_and_capacity().1
    }

    fn state(&self) -> MutexGuard<'_, State<D, K>> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot_if_nobody_waits(&self) -> Option<Slot<D, K>> {
        let mut state = self.state();
        let may_go = state.queue.is_empty() && !state.is_crowded();
        let index = if may_go { state.slots.take(false)? } else { return None };
        Some(Slot { lane: self.clone(), index, gives_up: false })
    }

    /// Serves the queue if there is a slot for it: a single call is sent alone, several are left to a task.
    fn serve(&self) {
        let (index, only) = {
            let mut state = self.state();
            if state.queue.is_empty() {
                return;
            }
            let Some(index) = state.slots.take(true) else { return };
            (index, if state.is_crowded() { None } else { state.take_only(index) })
        };
        // If the task is dropped before it has ended, the queue is dropped with it.
        let slot = Slot { lane: self.clone(), index, gives_up: only.is_none() };
        if let Some(only) = only {
            telemetry::calls_in_statement(self.0.name, 1);
            return only.answer(QueueAnswer::Alone(slot));
        }
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(serve(slot));
        }
    }

    /// Sends the next batch.
    async fn carry_out(&self, slot: u64) {
        let connections = &self.0.connections;
        self.state().slots.begin(slot);
        let connection = match timeout(connections.share(), connections.acquire()).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(_)) => return self.take().into_iter().for_each(|call| call.answer(QueueAnswer::Failed(None))),
            Err(_) => return,
        };
        let calls = self.take();
        self.state().last = calls.len();
        if !calls.is_empty() {
            self.state().slots.begin(slot);
            self.ask(connection, calls).await;
        }
    }

    fn take(&self) -> Vec<QueuedCall<Slot<D, K>, K>> {
        self.state().queue.take(self.0.max_batch)
    }

    async fn ask(&self, connection: D::Connection, mut calls: Vec<QueuedCall<Slot<D, K>, K>>) {
        let connections = &self.0.connections;
        let (begun, mut asked) = (Instant::now(), BatchConnection::<D>(Some(connection)));
        // The batch is given up then.
        let until = begun + connections.share();
        calls.retain_mut(|call| call.sends(until));
        if calls.is_empty() {
            drop(asked.0.take());
            return;
        }
        telemetry::calls_in_statement(self.0.name, calls.len());
        let items: Vec<&K::Item> = calls.iter().map(|call| &call.item).collect();
        let answers = match asked.0.as_mut() {
            Some(connection) => {
                let asking = K::run(connection, connections.sql(), (connections.clock(), until), &items);
                timeout_at(until, asking).await
            }
            None => return,
        };
        let fault = match answers {
            Ok(Ok(answers)) if answers.len() == calls.len() => {
                drop(asked.0.take());
                self.note(false);
                self.state().slots.note(begun.elapsed());
                return calls
                    .into_iter()
                    .zip(answers)
                    .for_each(|(call, answer)| call.answer(QueueAnswer::Together(answer)));
            }
            Ok(Err(error)) => {
                tracing::debug!(kind = self.0.name, calls = calls.len(), error = %telemetry::Chain(&error), "a batch failed");
                if is_missing(&error) {
                    telemetry::shared_statement_is_missing(self.0.name, &error);
                }
                connections.forget_if_stale(&error);
                let fault = match asked.0.as_mut() {
                    Some(connection) => connections.fault_of(&error, connection).await,
                    None => return,
                };
                connections.note(fault, begun.into_std());
                if !fault.spoils_connection() {
                    drop(asked.0.take());
                }
                fault
            }
            // The answer to another statement, or none.
            Ok(Ok(_)) => Fault::Lost,
            Err(_) => {
                match asked.0.take() {
                    Some(connection) if K::WRITES => {
                        connections.park_in_background(connection, begun, claims(&mut calls))
                    }
                    Some(connection) => drop(tokio::spawn(cancel::<D>(connection))),
                    None => {}
                }
                Fault::Lost
            }
        };
        if fault.is_lost() {
            connections.outlive(claims(&mut calls), begun);
        } else {
            telemetry::shared_statement_failed(self.0.name);
            self.note(true);
        }
        calls.into_iter().for_each(|call| call.answer(QueueAnswer::Failed(Some(fault))));
    }
}

impl<D: ConnectionPool, K: Kind> State<D, K> {
    /// Returns whether many calls arrive: then the next statement waits for those that the runtime has ready.
    fn is_crowded(&self) -> bool {
        self.last > 1
    }

    /// Takes the call that waits, if there is only one. From here on the slot belongs to that call's own statement.
    fn take_only(&mut self, slot: u64) -> Option<QueuedCall<Slot<D, K>, K>> {
        let only = self.queue.take_only()?;
        self.slots.begin_alone(slot);
        self.last = 1;
        Some(only)
    }
}

impl<D: ConnectionPool, K: Kind> Clone for Lane<D, K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// The right to have a statement under way. When it is dropped, the calls that wait are served.
pub(in crate::store::sql) struct Slot<D: ConnectionPool, K: Kind> {
    lane: Lane<D, K>,
    index: u64,
    /// Whether the calls that wait are sent alone when this is dropped.
    gives_up: bool,
}

impl<D: ConnectionPool, K: Kind> Drop for Slot<D, K> {
    fn drop(&mut self) {
        let given_up = {
            let mut state = self.lane.state();
            state.slots.free(self.index);
            self.gives_up.then(|| state.queue.clear())
        };
        match given_up {
            Some(queue) => drop(queue),
            None => self.lane.serve(),
        }
    }
}

/// Sends batches until no call waits.
async fn serve<D: ConnectionPool, K: Kind>(mut slot: Slot<D, K>) {
    loop {
        if slot.lane.state().queue.is_empty() {
            break;
        }
        if slot.lane.state().is_crowded() {
            yield_now().await;
        }
        let only = slot.lane.state().take_only(slot.index);
        if let Some(only) = only {
            slot.gives_up = false;
            telemetry::calls_in_statement(slot.lane.0.name, 1);
            return only.answer(QueueAnswer::Alone(slot));
        }
        let mut carried_out = pin!(slot.lane.carry_out(slot.index));
        while timeout(SLOW, &mut carried_out).await.is_err() {
            slot.lane.serve();
        }
    }
    slot.gives_up = false;
}

/// Takes the claims of calls whose answers are lost.
fn claims<D: ConnectionPool, K: Kind>(calls: &mut [QueuedCall<Slot<D, K>, K>]) -> Vec<SentClaim> {
    calls.iter_mut().filter_map(QueuedCall::take_claim).collect()
}

/// A connection with a batch under way. If this is dropped with it, it is closed.
struct BatchConnection<D: ConnectionPool>(Option<D::Connection>);

impl<D: ConnectionPool> Drop for BatchConnection<D> {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            connection.close();
        }
    }
}

async fn cancel<D: ConnectionPool>(connection: D::Connection) {
    connection.cancel().await;
    connection.close();
}
