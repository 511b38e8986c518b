//! A load of calls from concurrent callers, each of which makes its next call when the last one has been answered.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::{
    usage::{ServerProcesses, own_processor_time},
    world::Served,
};
use crate::error::Error;

/// The keys of the calls.
#[derive(Clone, Debug)]
pub(crate) enum Keys {
    /// A new key for each call: first calls.
    New,
    /// These keys in turn: replays.
    Recorded(Arc<[Uuid]>),
}

/// The calls of one measurement.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) concurrency: usize,
    pub(crate) keys: Keys,
    /// The size of the payload of requests and responses, in bytes.
    pub(crate) payload: usize,
}

/// The results of a load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    /// Calls per second.
    pub(crate) throughput: f64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    /// The processor time of this process, which calls and answers, per call.
    pub(crate) own_processor: Duration,
    /// The processor time of PostgreSQL's processes, per call.
    pub(crate) server_processor: Duration,
}

impl Load {
    /// Calls for the given time.
    pub(crate) async fn run_for(
        &self,
        time: Duration,
        client: &Served,
        server: &ServerProcesses,
    ) -> Result<Figures, Error> {
        let deadline = Instant::now() + time;
        self.run(client, server, move |_| Instant::now() < deadline).await
    }

    /// Makes the given number of calls.
    pub(crate) async fn run_times(
        &self,
        calls: usize,
        client: &Served,
        server: &ServerProcesses,
    ) -> Result<Figures, Error> {
        self.run(client, server, move |call| call < calls).await
    }

    async fn run(
        &self,
        client: &Served,
        server: &ServerProcesses,
        more: impl Fn(usize) -> bool + Clone + Send + 'static,
    ) -> Result<Figures, Error> {
        let calls = Arc::new(AtomicUsize::new(0));
        let payload = vec![0x5a; self.payload];
        let (own, of_server) = (own_processor_time()?, server.processor_time()?);
        let started = Instant::now();
        let mut callers = JoinSet::new();
        for _ in 0..self.concurrency {
            let (mut client, load, more, calls) = (client.clone(), self.clone(), more.clone(), Arc::clone(&calls));
            let payload = payload.clone();
            callers.spawn(async move {
                let mut latencies = histogram();
                loop {
                    let call = calls.fetch_add(1, Ordering::Relaxed);
                    if !more(call) {
                        return Ok::<_, Error>(latencies);
                    }
                    let asked = Instant::now();
                    client.create_project(load.key(call), payload.clone()).await?;
                    latencies.record(u64::try_from(asked.elapsed().as_nanos())?)?;
                }
            });
        }
        let mut latencies = histogram();
        while let Some(caller) = callers.join_next().await {
            latencies.add(caller??)?;
        }
        let elapsed = started.elapsed();
        let per_call = |time: Duration| time.div_f64(latencies.len().max(1) as f64);
        Ok(Figures {
            throughput: latencies.len() as f64 / elapsed.as_secs_f64(),
            p50: Duration::from_nanos(latencies.value_at_quantile(0.5)),
            p99: Duration::from_nanos(latencies.value_at_quantile(0.99)),
            own_processor: per_call(own_processor_time()? - own),
            server_processor: per_call(server.processor_time()?.saturating_sub(of_server)),
        })
    }

    fn key(&self, call: usize) -> Uuid {
        match &self.keys {
            Keys::New => Uuid::new_v4(),
            Keys::Recorded(keys) => keys[call % keys.len()],
        }
    }
}

/// Latencies in nanoseconds, to three digits.
fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("three digits are no more than five")
}
