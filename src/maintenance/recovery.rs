//! Finds calls that ended without an outcome, and asks their reconcilers.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use super::background::Background;
use crate::{
    engine::{
        call::Call,
        claim::claim,
        disposition::Disposition,
        held_key::Claimed,
        reconcile::{Verdict, reconcile},
        record::let_go,
        state::Engine,
    },
    policy::{LeasePolicy, Mode, Procedure},
    store::{AbandonedKey, AbandonedQuery, Reservation, StoreError},
    telemetry::{self, Chain},
};

/// Looks in the background for calls that ended without saying how, and asks their reconcilers, so that a client that comes
/// back late finds the answer, and one that never comes back leaves nothing open. For procedures whose policy is
/// [`LeasePolicy::Reconcile`]; a retry of a client asks by itself, at once.
///
/// Its work is bounded: one call at a time, at most [`batch`](Self::batch) each time, each key at most
/// [`max_attempts`](Self::max_attempts) times. Several processes may recover from one table; a key is one's at a time.
///
/// ```
/// # fn recover(layer: tonic_idempotency::IdempotencyLayer) {
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use std::time::Duration;
///
/// // Default: once a minute.
/// let recovering = layer.recovery().spawn();
/// recovering.stop().await;
///
/// // Customised.
/// let recovering = layer.recovery().interval(Duration::from_secs(10)).batch(20).spawn();
/// recovering.stop().await;
/// # });
/// # }
/// ```
#[derive(Clone)]
#[must_use = "it does nothing until `spawn` or `recover`"]
pub struct Recovery {
    engine: Option<Arc<Engine>>,
    /// The procedures that are reconciled, by path.
    procedures: Arc<HashMap<String, Arc<Procedure>>>,
    interval: Duration,
    batch: u32,
    lookback: Duration,
    max_attempts: u32,
}

impl Recovery {
    pub(crate) fn new(engine: Option<Arc<Engine>>, procedures: impl Iterator<Item = Arc<Procedure>>) -> Self {
        let reconciled = procedures.filter(|procedure| {
            let policies = procedure.policies();
            policies.on_lease_ended == LeasePolicy::Reconcile && policies.mode == Mode::Reserved
        });
        Self {
            engine,
            procedures: Arc::new(reconciled.map(|procedure| (procedure.path().to_owned(), procedure)).collect()),
            interval: Duration::from_secs(60),
            batch: 100,
            lookback: Duration::from_secs(60 * 60),
            max_attempts: 10,
        }
    }

    /// The time between two looks, at least one millisecond. Defaults to 1 minute.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval.max(Duration::from_millis(1));
        self
    }

    /// How many calls are asked about each time, at least one. Defaults to 100.
    pub fn batch(mut self, batch: u32) -> Self {
        self.batch = batch.max(1);
        self
    }

    /// How far back the looks after the first go, in the time at which keys were first reserved; what is older is not read.
    /// The first look goes back for ever. Longer than a lease and a handler take. Defaults to 1 hour.
    pub fn lookback(mut self, lookback: Duration) -> Self {
        self.lookback = lookback;
        self
    }

    /// How many calls may have held a key that is looked at, retries and earlier looks included: after that it waits for a
    /// client. At least two. Defaults to 10.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts.max(2);
        self
    }

    /// Looks at once and again after each interval, in a task of its own, until stopped.
    pub fn spawn(self) -> RecoveryHandle {
        let (recovery, first) = (Arc::new(self), Arc::new(AtomicBool::new(true)));
        RecoveryHandle {
            background: Background::spawn(recovery.interval, move |stop| {
                let (recovery, first) = (Arc::clone(&recovery), Arc::clone(&first));
                async move {
                    let lookback = (!first.load(Ordering::Relaxed)).then_some(recovery.lookback);
                    match recovery.look(lookback, &stop).await {
                        Ok(_) => first.store(false, Ordering::Relaxed),
                        Err(error) => tracing::warn!(
                            error = %Chain(&error),
                            "the look for abandoned calls failed; the next one follows at its time"
                        ),
                    }
                }
            }),
        }
    }

    /// Looks once, however long ago the calls were, and says what became of them.
    ///
    /// # Errors
    ///
    /// [`StoreError`] where the store does not answer. What was found out before stays recorded.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it stops after some call, whose key may be reserved until its lease ends.
    pub async fn recover(&self) -> Result<Recovered, StoreError> {
        self.look(None, &CancellationToken::new()).await
    }

    async fn look(&self, lookback: Option<Duration>, stopped: &CancellationToken) -> Result<Recovered, StoreError> {
        let mut recovered = Recovered::default();
        let Some(engine) = &self.engine else { return Ok(recovered) };
        if self.procedures.is_empty() {
            return Ok(recovered);
        }
        let query = AbandonedQuery {
            procedures: self.procedures.keys().cloned().collect(),
            lookback,
            max_attempts: self.max_attempts,
            batch: self.batch,
        };
        for abandoned in engine.store.abandoned(&query).await? {
            if stopped.is_cancelled() {
                break;
            }
            self.recover_one(engine, abandoned, &mut recovered).await?;
        }
        if recovered != Recovered::default() {
            telemetry::recovered(recovered.completed, recovered.not_executed, recovered.unknown);
        }
        Ok(recovered)
    }

    /// Asks about one call, unless another process is faster.
    async fn recover_one(
        &self,
        engine: &Engine,
        abandoned: AbandonedKey,
        recovered: &mut Recovered,
    ) -> Result<(), StoreError> {
        let Some(procedure) = self.procedures.get(&abandoned.procedure) else { return Ok(()) };
        let call = Arc::new(Call {
            procedure: Arc::clone(procedure),
            reservation: Reservation::new(abandoned.user, abandoned.key),
            request_hash: abandoned.request_hash,
            request: None,
            deadline: None,
            disconnected: None,
        });
        match claim(engine, &call).await? {
            // Released in the meantime.
            Claimed::Acquired(key) => let_go(engine, &call, key, Disposition::Release).await,
            Claimed::Refused { .. } => {}
            Claimed::TakenOver(key) => match reconcile(engine, &call, key).await {
                Verdict::NotExecuted(key) => {
                    let_go(engine, &call, key, Disposition::Release).await;
                    recovered.not_executed += 1;
                }
                // Recorded in the background, or asked about again.
                Verdict::NotRecorded => {}
                Verdict::Recorded => recovered.completed += 1,
                Verdict::Unknown => recovered.unknown += 1,
            },
        }
        Ok(())
    }
}

impl fmt::Debug for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recovery")
            .field("interval", &self.interval)
            .field("batch", &self.batch)
            .field("lookback", &self.lookback)
            .field("max_attempts", &self.max_attempts)
            .finish_non_exhaustive()
    }
}

/// What [`Recovery::recover`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovered {
    /// Calls that had taken effect: their responses are recorded.
    pub completed: u64,
    /// Calls that had not: a retry asks once more, and runs.
    pub not_executed: u64,
    /// Calls of which nobody knows.
    pub unknown: u64,
}

/// A [`Recovery`] at work. Dropped, it goes on; [`stop`](Self::stop) ends it.
#[derive(Debug)]
pub struct RecoveryHandle {
    background: Background,
}

impl RecoveryHandle {
    /// Stops after the call that is being asked about, and waits until then.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it stops all the same.
    pub async fn stop(self) {
        self.background.stop("the recovery").await;
    }
}
