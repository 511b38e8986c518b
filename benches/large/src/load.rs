//! Callers who claim new keys and record their outcomes.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use protobuf_canonical::RequestHash;
use tokio::{task::JoinSet, time};
use tokio_util::sync::CancellationToken;
use tonic_idempotency::{
    KeyId, OwnerId,
    policy::{EffectPolicy, ForeignPolicy, LeasePolicy},
    store::{CallSession, Claim, ClaimOutcome, Completion, PostgresStore, Reservation, Store as _, StoredResponse},
};
use uuid::Uuid;

use crate::{Error, table::USERS};

/// Concurrent callers of all users, each of whom makes one call after the other.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) store: PostgresStore,
    pub(crate) callers: usize,
    pub(crate) retention: Duration,
    /// The calls per second of all callers together; `None` for as many as there can be.
    pub(crate) rate: Option<f64>,
}

/// The times of the claims of a load, in microseconds.
#[derive(Debug)]
pub(crate) struct Figures {
    claims: Histogram<u64>,
    took: Duration,
}

impl Load {
    /// Calls for this time.
    pub(crate) async fn run_for(&self, time: Duration) -> Result<Figures, Error> {
        let wait = async {
            time::sleep(time).await;
            Ok(())
        };
        Ok(self.run_during(wait).await?.0)
    }

    /// Calls until the work has ended.
    pub(crate) async fn run_during<T>(
        &self,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<(Figures, T), Error> {
        let stop = CancellationToken::new();
        let started = Instant::now();
        let mut callers = JoinSet::new();
        for caller in 0..self.callers {
            callers.spawn(self.clone().call_until(stop.clone(), caller));
        }
        // A caller that fails ends the measurement.
        let done = tokio::select! {
            done = work => done,
            Some(ended) = callers.join_next() => match ended {
                Ok(Err(error)) => Err(error),
                other => Err(format!("a caller has ended: {other:?}").into()),
            },
        };
        stop.cancel();
        let mut figures = Figures { claims: histogram()?, took: started.elapsed() };
        while let Some(ended) = callers.join_next().await {
            figures.claims.add(ended??)?;
        }
        Ok((figures, done?))
    }

    async fn call_until(self, stop: CancellationToken, caller: usize) -> Result<Histogram<u64>, Error> {
        let mut claims = histogram()?;
        let mut pace = self.rate.map(|rate| {
            // The callers take turns.
            let first = time::Instant::now() + Duration::from_secs_f64(caller as f64 / rate);
            let mut pace = time::interval_at(first, Duration::from_secs_f64(self.callers as f64 / rate));
            pace.set_missed_tick_behavior(time::MissedTickBehavior::Burst);
            pace
        });
        while !stop.is_cancelled() {
            if let Some(pace) = &mut pace {
                pace.tick().await;
            }
            claims.record(self.call().await?.as_micros().try_into()?)?;
        }
        Ok(claims)
    }

    /// Makes a call, and returns the time of its claim.
    async fn call(&self) -> Result<Duration, Error> {
        let key = Uuid::new_v4();
        let user = Uuid::parse_str(&format!("00000000-0000-7000-8000-{:012}", rand::random_range(0..USERS)))?;
        let claim = Claim {
            reservation: Reservation::new(OwnerId::new(user), KeyId::new(key)),
            session: CallSession { user: Some(user), settings: None },
            procedure: "/benchmarks.large.v1.ProjectService/CreateProject".to_owned(),
            request: RequestHash::from([7; 32]).into(),
            lease: Duration::from_secs(60),
            retention: self.retention,
            on_lease_ended: LeasePolicy::Rerun,
            on_foreign_reservation: ForeignPolicy::InProgress,
            effect: EffectPolicy::Anywhere,
            resource_type: None,
        };
        let begun = Instant::now();
        match self.store.claim(&claim).await? {
            ClaimOutcome::Acquired => {}
            other => return Err(format!("a new key was not acquired: {other:?}").into()),
        }
        let took = begun.elapsed();
        let response = StoredResponse::message(vec![0x5a; 100]);
        let completion = Completion { response, resource: None, retention: self.retention };
        self.store.complete(&claim.reservation, &completion).await?;
        Ok(took)
    }
}

impl Figures {
    pub(crate) fn p50(&self) -> f64 {
        self.milliseconds(0.5)
    }

    pub(crate) fn p99(&self) -> f64 {
        self.milliseconds(0.99)
    }

    pub(crate) fn longest(&self) -> f64 {
        self.claims.max() as f64 / 1e3
    }

    pub(crate) fn calls(&self) -> u64 {
        self.claims.len()
    }

    pub(crate) fn per_second(&self) -> f64 {
        self.claims.len() as f64 / self.took.as_secs_f64()
    }

    /// The cells of a row of the report: p50, p99, the longest, calls per second.
    pub(crate) fn cells(&self) -> [String; 4] {
        let [p50, p99, longest] = [self.p50(), self.p99(), self.longest()].map(|time| format!("{time:.2}"));
        [p50, p99, longest, format!("{:.0}", self.per_second())]
    }

    fn milliseconds(&self, quantile: f64) -> f64 {
        self.claims.value_at_quantile(quantile) as f64 / 1e3
    }
}

fn histogram() -> Result<Histogram<u64>, Error> {
    Ok(Histogram::new(3)?)
}
