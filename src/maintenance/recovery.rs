//! Reconciles calls whose lease ended without an outcome.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::{background::Background, unknown_keys::UnknownKeys};
use crate::{
    engine::{
        attempts::Attempts,
        call::ProtectedCall,
        claim::claim,
        held_key::ClaimAnswer,
        reconcile::{Verdict, reconcile},
        record::{disposition::Disposition, let_go, release_lost_claim},
        seal::with_keys,
        shared::state::Engine,
    },
    nesting::Nesting,
    policy::{LeasePolicy, Mode, Procedure},
    store::{AbandonedKey, AbandonedQuery, CallSession, Reservation, StoreError},
    telemetry::{self, Chain, rarely},
};

/// Finds calls whose lease ended without an outcome, and asks their reconcilers in the background.
///
/// A client that retries late then finds the response, and a call whose client never retries does not stay open.
/// Recovery is for procedures with the policy [`LeasePolicy::Reconcile`]. It knows the owner of each call, but not its
/// caller. A client's retry does not wait for it, but asks the reconciler itself.
///
/// The work is bounded: [`concurrency`](Self::concurrency) calls at a time, at most [`batch`](Self::batch) calls in each
/// run, and each key at most [`max_attempts`](Self::max_attempts) times. A slow reconciler, or a call that cannot be
/// recovered, does not hold up the other calls of a run. Several processes may recover from the same table: only one of
/// them holds a key at a time.
///
/// After each run, a recovery that was [spawned](Self::spawn) sets the gauge `idempotency_unknown`: the number of keys of all reserved
/// procedures, whatever their policies, whose lease ended without an outcome. A key counts until a run, a retry or an operator has ended
/// that, or its record has expired; at most 1,000 count. The first run reads the whole table for it, later ones an hour of it, and look up the
/// keys that they know.
///
/// ```
/// # fn recover(layer: tonic_idempotency::IdempotencyLayer) {
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use std::time::Duration;
///
/// // Default: once a minute, at most a hundred calls.
/// let recovery = layer.recovery().spawn();
/// recovery.stop().await;
///
/// // Customised.
/// let recovery = layer.recovery().interval(Duration::from_secs(10)).spawn();
/// recovery.stop().await;
/// # });
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a recovery does nothing until `spawn` or `recover`"]
pub struct Recovery {
    engine: Option<Arc<Engine>>,
    /// The procedures with the policy `Reconcile`, by path.
    procedures: Arc<HashMap<String, Arc<Procedure>>>,
    /// The paths of all procedures that reserve keys.
    counted: Arc<[String]>,
    interval: Duration,
    batch: u32,
    concurrency: usize,
    lookback: Duration,
    max_attempts: u32,
}

impl Recovery {
    pub(crate) fn new(engine: Option<Arc<Engine>>, procedures: impl Iterator<Item = Arc<Procedure>>) -> Self {
        let reserved: Vec<_> = procedures.filter(|procedure| procedure.policies().mode == Mode::Reserved).collect();
        let counted = reserved.iter().map(|procedure| procedure.path().to_owned()).collect();
        let reconciled =
            reserved.into_iter().filter(|procedure| procedure.policies().on_lease_ended == LeasePolicy::Reconcile);
        Self {
            engine,
            counted,
            procedures: Arc::new(reconciled.map(|procedure| (procedure.path().to_owned(), procedure)).collect()),
            interval: Duration::from_secs(60),
            batch: 100,
            concurrency: 8,
            lookback: Duration::from_secs(60 * 60),
            max_attempts: 10,
        }
    }

    /// Sets the time between two runs, from 1 millisecond to 10 years. Defaults to 1 minute.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Sets the maximum number of calls in one run, 100. Only for tests.
    #[doc(hidden)]
    pub fn batch(mut self, batch: u32) -> Self {
        self.batch = batch.max(1);
        self
    }

    /// Sets the maximum number of calls that are recovered at the same time, 8. Only for tests.
    #[doc(hidden)]
    pub fn concurrency(mut self, calls: usize) -> Self {
        self.concurrency = calls.max(1);
        self
    }

    /// Sets the longest time since a key was first reserved, 1 hour, for runs after the first one in which no call failed. Only for
    /// tests.
    #[doc(hidden)]
    pub fn lookback(mut self, lookback: Duration) -> Self {
        self.lookback = lookback;
        self
    }

    /// Sets the number of calls that may have held a key before a run skips it, 10. Only for tests.
    #[doc(hidden)]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts.max(2);
        self
    }

    /// Spawns a task that recovers at once and after each interval, until it is stopped.
    ///
    /// # Panics
    ///
    /// Outside of a Tokio runtime.
    pub fn spawn(self) -> RecoveryHandle {
        let (recovery, first) = (Arc::new(self), Arc::new(AtomicBool::new(true)));
        let unknown = Arc::new(Mutex::new(UnknownKeys::default()));
        RecoveryHandle {
            background: Background::spawn(recovery.interval, move |stop| {
                let (recovery, first) = (Arc::clone(&recovery), Arc::clone(&first));
                let unknown = Arc::clone(&unknown);
                async move {
                    let lookback = (!first.load(Ordering::Relaxed)).then_some(recovery.lookback);
                    match recovery.look(lookback, &stop).await {
                        Ok(recovered) if recovered.failed == 0 => first.store(false, Ordering::Relaxed),
                        Ok(_) => {}
                        Err(error) => {
                            if let Some(runs) = rarely("recovery_failed", error.kind().as_str()) {
                                tracing::warn!(
                                    error = %Chain(&error),
                                    runs,
                                    "recovering abandoned calls failed; trying again after the interval"
                                );
                            }
                        }
                    }
                    stop.run_until_cancelled(recovery.count(&mut *unknown.lock().await)).await;
                }
            }),
        }
    }

    /// Recovers once, without the limit of [`lookback`](Self::lookback), and returns what happened to the calls. A call that
    /// cannot be recovered is logged and counted, and the run goes on.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot tell which calls there are.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no further call is recovered. The keys of the current calls may stay reserved until their
    /// leases end.
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
        let mut abandoned = engine.store.abandoned(&query).await?.into_iter();
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < self.concurrency
                && !stopped.is_cancelled()
                && let Some(abandoned) = abandoned.next()
            {
                running.push(self.recover_one(engine, abandoned));
            }
            let Some(ended) = running.next().await else { break };
            recovered.count(ended);
        }
        if recovered != Recovered::default() {
            let Recovered { completed, failed, not_executed, unknown } = recovered;
            telemetry::recovered(completed, failed, not_executed, unknown);
        }
        Ok(recovered)
    }

    /// Counts the keys that are left, for the gauge. If that fails, the gauge stays as it is.
    async fn count(&self, unknown: &mut UnknownKeys) {
        let Some(engine) = &self.engine else { return };
        if self.counted.is_empty() {
            return;
        }
        if let Ok(keys) = unknown.count(&*engine.store, &self.counted, self.lookback, self.concurrency).await {
            telemetry::unknown(keys);
        }
    }

    /// Recovers one call; `None` if another process or a client has claimed its key first.
    async fn recover_one(&self, engine: &Engine, abandoned: AbandonedKey) -> Option<RecoveryOutcome> {
        let procedure = self.procedures.get(&abandoned.procedure)?;
        let call = Arc::new(ProtectedCall {
            procedure: Arc::clone(procedure),
            reservation: Reservation::new(abandoned.owner, abandoned.key),
            caller: None,
            session: CallSession::of_owner(abandoned.owner),
            request_hashes: abandoned.request,
            request: None,
            nesting: Nesting::default(),
            metadata: None,
            can_be_final: false,
            deadline: None,
            disconnected: None,
            attempts: Attempts::default(),
            keys: None,
        });
        // For want of its keys, an outcome that is found would be lost.
        let Ok(call) = with_keys(engine, &call).await else { return Some(RecoveryOutcome::Failed) };
        let key = match claim(engine, &call).await {
            Ok(ClaimAnswer::TakenOver(key)) => key,
            // The key was released in the meantime.
            Ok(ClaimAnswer::Acquired(key)) => {
                let_go(engine, &call, key, Disposition::Release).await;
                return None;
            }
            // A recovery claims with the recorded hashes, and no others.
            Ok(ClaimAnswer::NotAcquired { .. } | ClaimAnswer::GivenBack | ClaimAnswer::Unknown(_)) => return None,
            Err(error) => {
                release_lost_claim(engine, &call, &error);
                procedure.telemetry().not_recovered(error.kind().as_str(), &Chain(&error));
                return Some(RecoveryOutcome::Failed);
            }
        };
        Some(match reconcile(engine, &call, key).await {
            Verdict::NotExecuted(key) => {
                let_go(engine, &call, key, Disposition::Release).await;
                RecoveryOutcome::NotExecuted
            }
            // The outcome is recorded in the background, or the next run asks again.
            Verdict::NotRecorded => RecoveryOutcome::Failed,
            Verdict::Recorded => RecoveryOutcome::Completed,
            Verdict::Unknown => RecoveryOutcome::Unknown,
        })
    }
}

impl fmt::Debug for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recovery")
            .field("interval", &self.interval)
            .field("batch", &self.batch)
            .field("concurrency", &self.concurrency)
            .field("lookback", &self.lookback)
            .field("max_attempts", &self.max_attempts)
            .finish_non_exhaustive()
    }
}

/// The result of [`Recovery::recover`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovered {
    /// The number of calls that had taken effect. Their responses are recorded.
    pub completed: u64,
    /// The number of calls for which the store failed: their keys could not be claimed, or their outcomes are not recorded
    /// yet. The next run tries again.
    pub failed: u64,
    /// The number of calls that had not taken effect. A retry asks the reconciler again, and then runs the handler.
    pub not_executed: u64,
    /// The number of calls whose outcome stays unknown.
    pub unknown: u64,
}

impl Recovered {
    fn count(&mut self, ended: Option<RecoveryOutcome>) {
        match ended {
            Some(RecoveryOutcome::Completed) => self.completed += 1,
            Some(RecoveryOutcome::Failed) => self.failed += 1,
            Some(RecoveryOutcome::NotExecuted) => self.not_executed += 1,
            Some(RecoveryOutcome::Unknown) => self.unknown += 1,
            None => {}
        }
    }
}

/// The result for one call: the fields of [`Recovered`].
enum RecoveryOutcome {
    Completed,
    Failed,
    NotExecuted,
    Unknown,
}

/// A handle to a running [`Recovery`]. Dropping it does not stop the recovery; [`stop`](Self::stop) does.
#[derive(Debug)]
pub struct RecoveryHandle {
    background: Background,
}

impl RecoveryHandle {
    /// Stops the recovery after the current calls, and waits until it has stopped.
    ///
    /// # Cancel safety
    ///
    /// The recovery stops even if the future is dropped.
    pub async fn stop(self) {
        self.background.stop("the recovery").await;
    }
}
