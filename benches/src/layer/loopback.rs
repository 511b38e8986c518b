//! Servers over loopback HTTP/2, with clients in this process.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use tokio::task::JoinSet;
use tonic::transport::Channel;
use tonic_idempotency::store::MemoryStore;

use super::{
    echo::{Saying, bare, connect, message, proto::echo_client::EchoClient, remembering, serve, wrapped},
    way::{WAYS, Way},
};
use crate::{Error, context::Context, spread::Spread};

/// The numbers of concurrent calls.
pub(super) const CONCURRENCY: [usize; 2] = [1, 64];

const ROUNDS: usize = 120;

/// The time of one way in each round.
const TURN: Duration = Duration::from_millis(25);

/// The number of callers that share a connection.
const CALLERS_PER_CONNECTION: usize = 16;

/// The results of one way to call.
pub(super) struct Loopback {
    /// Calls per second, round by round.
    pub(super) throughput: Vec<f64>,
    /// Latencies in nanoseconds.
    pub(super) latency: Histogram<u64>,
}

impl Loopback {
    /// Returns the calls per second.
    pub(super) fn throughput(&self) -> Spread {
        Spread::of(self.throughput.iter().copied())
    }

    /// Returns the ratio of the throughput to another's.
    pub(super) fn relative_to(&self, other: &Self) -> Spread {
        Spread::of_ratios(&self.throughput, &other.throughput)
    }

    /// Returns a quantile of the latencies, in microseconds.
    pub(super) fn microseconds(&self, quantile: f64) -> f64 {
        self.latency.value_at_quantile(quantile) as f64 / 1000.0
    }
}

/// Measures all [`Way`]s in turn, with the given number of concurrent calls.
pub(super) async fn measure(context: &Context, concurrency: usize) -> Result<Vec<Loopback>, Error> {
    let handler = Saying::default();
    let bare = serve(bare(&handler)).await?;
    let wrapped = serve(wrapped(&handler, MemoryStore::new())?).await?;
    let remembering = serve(remembering(&handler, MemoryStore::new())?).await?;
    let mut measured = Vec::new();
    let mut clients = Vec::new();
    for way in Way::ALL {
        measured.push(Loopback { throughput: Vec::new(), latency: Histogram::new(3)? });
        let server = match way {
            Way::Bare => bare,
            Way::First | Way::PassedThrough | Way::Replay => wrapped,
            Way::Remembered => remembering,
        };
        clients.push(connections(server, concurrency).await?);
    }
    for way in Way::ALL {
        // One caller first, so that the call is recorded before many callers replay it.
        for callers in [1, concurrency] {
            turn(&clients[way as usize], way, callers, context.time(TURN)).await?;
        }
    }
    for round in 0..context.rounds(ROUNDS) {
        let mut taken = [(0, Duration::ZERO); WAYS];
        for way in Way::in_turn(round) {
            let (time, latency) = turn(&clients[way as usize], way, concurrency, context.time(TURN)).await?;
            let (calls, so_far) = &mut taken[way as usize];
            *calls += latency.len();
            *so_far += time;
            measured[way as usize].latency.add(latency)?;
        }
        for (measured, (calls, time)) in measured.iter_mut().zip(taken) {
            measured.throughput.push(calls as f64 / time.as_secs_f64());
        }
    }
    Ok(measured)
}

async fn connections(address: SocketAddr, concurrency: usize) -> Result<Vec<EchoClient<Channel>>, Error> {
    let mut clients = Vec::new();
    for _ in 0..concurrency.div_ceil(CALLERS_PER_CONNECTION) {
        clients.push(connect(address).await?);
    }
    Ok(clients)
}

/// Calls for the given time. Returns the time taken, and the latencies.
async fn turn(
    clients: &[EchoClient<Channel>],
    way: Way,
    concurrency: usize,
    time: Duration,
) -> Result<(Duration, Histogram<u64>), Error> {
    let begun = Instant::now();
    let mut callers = JoinSet::new();
    for caller in 0..concurrency {
        let mut client = clients[caller % clients.len()].clone();
        callers.spawn(async move {
            let mut latency = Histogram::<u64>::new(3)?;
            while begun.elapsed() < time {
                let request = message(way.key())?;
                let sent = Instant::now();
                client.say(request).await?;
                latency.record(u64::try_from(sent.elapsed().as_nanos())?)?;
            }
            Ok::<_, Error>(latency)
        });
    }
    let mut latency = Histogram::new(3)?;
    while let Some(caller) = callers.join_next().await {
        latency.add(caller??)?;
    }
    Ok((begun.elapsed(), latency))
}
