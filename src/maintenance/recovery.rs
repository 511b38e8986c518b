use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use crate::{
    LeasePolicy, Mode, StoreError,
    engine::{call::Call, held_key::Claimed, reconcile::Verdict, settle::Settlement},
    layer::layer::Shared,
    maintenance::background::Background,
    store::{AbandonedKey, Reservation, Search},
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
    shared: Arc<Shared>,
    interval: Duration,
    batch: u32,
    lookback: Duration,
    max_attempts: u32,
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

impl Recovery {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
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
    pub fn spawn(self) -> Recovering {
        let (recovery, first) = (Arc::new(self), Arc::new(AtomicBool::new(true)));
        Recovering {
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
        let Some(engine) = &self.shared.engine else { return Ok(recovered) };
        let reconciled = self.shared.procedures.values().map(|protected| &protected.procedure).filter(|procedure| {
            let policies = procedure.policies();
            policies.on_lease_ended == LeasePolicy::Reconcile && policies.mode == Mode::Reserved
        });
        let procedures: Vec<_> = reconciled.map(|procedure| procedure.path().to_owned()).collect();
        if procedures.is_empty() {
            return Ok(recovered);
        }
        let search = Search { procedures, lookback, max_attempts: self.max_attempts, batch: self.batch };
        for abandoned in engine.store.abandoned(&search).await? {
            if stopped.is_cancelled() {
                break;
            }
            self.recover_one(abandoned, &mut recovered).await?;
        }
        if recovered != Recovered::default() {
            telemetry::recovered(&recovered);
        }
        Ok(recovered)
    }

    /// Asks about one call, unless somebody else is faster.
    async fn recover_one(&self, abandoned: AbandonedKey, recovered: &mut Recovered) -> Result<(), StoreError> {
        let (Some(engine), Some(protected)) = (&self.shared.engine, self.shared.procedures.get(&abandoned.procedure))
        else {
            return Ok(());
        };
        let call = Arc::new(Call {
            procedure: Arc::clone(&protected.procedure),
            reservation: Reservation::new(abandoned.user, abandoned.key),
            request_hash: abandoned.request_hash,
            request: None,
            deadline: None,
            hung_up: None,
        });
        match engine.claim(&call).await? {
            // It went away in the meantime.
            Claimed::Acquired(hold) => engine.let_go(&call, hold, Settlement::Release).await,
            Claimed::Refused { .. } => {}
            Claimed::TakenOver(hold) => match engine.reconcile(&call, hold).await {
                Verdict::NotExecuted(hold) => {
                    engine.let_go(&call, hold, Settlement::Release).await;
                    recovered.not_executed += 1;
                }
                // It is recorded in the background, or asked about again.
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

/// A [`Recovery`] at work. Dropped, it goes on; [`stop`](Self::stop) ends it.
#[derive(Debug)]
pub struct Recovering {
    background: Background,
}

impl Recovering {
    /// Stops after the call that is being asked about, and waits until then.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it stops all the same.
    pub async fn stop(self) {
        self.background.stop("the recovery").await;
    }
}
