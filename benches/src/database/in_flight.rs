//! A server with many calls in flight, and the calls that it answers beside them.
//!
//! Held calls are first calls whose handlers wait, without a connection, until they are let go. Beside them other first calls
//! arrive at a fixed rate, whatever the server does (an open loop), far below its capacity.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tonic_idempotency::policy::{Limit, Limits};

use deadpool_postgres::Pool;
use hdrhistogram::Histogram;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{MissedTickBehavior, interval, timeout},
};
use tonic::{Request, Response, Status, service::Routes};
use uuid::Uuid;

use super::{
    contender::{Guard, RESERVED},
    handler::Projects,
    plan::SMALL,
    proto::{
        CreateProjectRequest, CreateProjectResponse,
        project_service_server::{ProjectService, ProjectServiceServer},
    },
    world::{Served, World, authenticated, behind_layer, store},
};
use crate::{
    context::Context,
    error::Error,
    report::{Spread, seconds, table},
};

/// The calls that are held, in turn.
pub(super) const HELD: [usize; 2] = [64, 4096];

/// The calls per second that arrive beside them.
pub(super) const RATE: u32 = 200;

/// The rounds, and the time for which calls arrive in each.
const ROUNDS: usize = 7;
const TIME: Duration = Duration::from_millis(1_500);

/// The calls that begin, or are let go, together.
const WAVE: usize = 256;

/// The time after which held calls that have not reached their handlers never will.
const LONGEST: Duration = Duration::from_secs(60);

/// The results, by the number of calls that are held.
#[derive(Clone, Debug)]
pub(super) struct InFlight {
    /// The latencies of each round.
    latencies: [Vec<Latencies>; HELD.len()],
}

#[derive(Clone, Copy, Debug)]
struct Latencies {
    p50: Duration,
    p99: Duration,
}

impl InFlight {
    pub(super) async fn measure(context: &Context, world: &World) -> Result<Self, Error> {
        let gate = Gate::default();
        let client = Served::start(held_reserved(world.pool(world.address()?)?, gate.clone())?).await?;
        let mut latencies = [const { Vec::new() }; HELD.len()];
        let rounds = context.rounds(ROUNDS);
        for round in 0..rounds {
            context.progress(&format!("calls beside those in flight, round {} of {rounds}", round + 1));
            let mut held = Held::new(&client, &gate);
            for (index, calls) in HELD.into_iter().enumerate() {
                held.grow_to(context.count(calls)).await?;
                latencies[index].push(arriving(context, &client).await?);
            }
            held.end().await?;
        }
        Ok(Self { latencies })
    }

    pub(super) fn table(&self) -> String {
        let row = |(held, rounds): (usize, &Vec<Latencies>)| {
            let median = |of: fn(&Latencies) -> Duration| {
                seconds(Spread::of(rounds.iter().map(|round| of(round).as_secs_f64())).median)
            };
            [held.to_string(), median(|latencies| latencies.p50), median(|latencies| latencies.p99)]
        };
        let caption = format!(
            "A server in reserved mode with calls in flight whose handlers wait, without a connection: latencies of the {RATE} \
             first calls per second that arrive beside them, whatever it does ({ROUNDS} rounds; its store and its handlers share a pool)"
        );
        table(&caption, ["in flight", "p50", "p99"], HELD.into_iter().zip(&self.latencies).map(row))
    }

    /// Returns the 99th percentile beside the most calls, over that beside the fewest, round by round.
    pub(super) fn p99_ratio(&self) -> Spread {
        let [few, many] = &self.latencies;
        Spread::of(many.iter().zip(few).map(|(many, few)| many.p99.as_secs_f64() / few.p99.as_secs_f64()))
    }
}

/// A handler that holds calls, behind the layer in reserved mode, as it comes but for its limits. The store and the handler share one pool.
pub(super) fn held_reserved(pool: Pool, gate: Gate) -> Result<Routes, Error> {
    let Guard::Layer(layer) = RESERVED.guard else { return Err("reserved mode has the layer".into()) };
    let handler = Holding { gate, projects: Projects::new(pool.clone()) };
    let most = 2 * HELD[1];
    behind_layer(handler, store(pool, layer), layer, |builder| {
        builder.limits(Limits { in_flight: Limit::new(most, most), ..Limits::default() })
    })
}

/// A handler that holds calls, without the layer.
pub(super) fn held_bare(pool: Pool, gate: Gate) -> Result<Routes, Error> {
    Ok(authenticated(ProjectServiceServer::new(Holding { gate, projects: Projects::new(pool) })))
}

/// Calls at a fixed rate. A latency counts from the time at which the call was to be made.
async fn arriving(context: &Context, client: &Served) -> Result<Latencies, Error> {
    let mut ticks = interval(Duration::from_secs(1) / RATE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut calls = JoinSet::new();
    for _ in 0..arrivals(context) {
        let due = ticks.tick().await.into_std();
        let mut client = client.clone();
        calls.spawn(async move {
            client.create_project(Uuid::new_v4(), vec![0x5a; SMALL]).await?;
            Ok::<_, Error>(Instant::now().saturating_duration_since(due))
        });
    }
    let mut latencies = Histogram::<u64>::new(3)?;
    while let Some(latency) = calls.join_next().await {
        latencies.record(u64::try_from(latency??.as_nanos())?)?;
    }
    let at = |quantile| Duration::from_nanos(latencies.value_at_quantile(quantile));
    Ok(Latencies { p50: at(0.5), p99: at(0.99) })
}

fn arrivals(context: &Context) -> u32 {
    u32::try_from(context.time(TIME).as_millis()).unwrap_or(u32::MAX).saturating_mul(RATE) / 1_000
}

/// The calls that are held.
struct Held<'a> {
    client: &'a Served,
    gate: &'a Gate,
    calls: JoinSet<Result<(), Error>>,
    /// The calls that were held before these.
    before: usize,
}

impl<'a> Held<'a> {
    fn new(client: &'a Served, gate: &'a Gate) -> Self {
        Self { client, gate, calls: JoinSet::new(), before: gate.arrived() }
    }

    /// Makes calls until this many are held.
    async fn grow_to(&mut self, calls: usize) -> Result<(), Error> {
        while self.calls.len() < calls {
            for _ in 0..WAVE.min(calls - self.calls.len()) {
                let mut client = self.client.clone();
                self.calls.spawn(async move { client.create_project(Uuid::new_v4(), HOLD.to_vec()).await });
            }
            let arrived = self.before + self.calls.len();
            let mut arrivals = self.gate.arrived.subscribe();
            if timeout(LONGEST, arrivals.wait_for(|all| *all >= arrived)).await.is_err() {
                return Err("a call that was to be held has not reached its handler".into());
            }
        }
        Ok(())
    }

    /// Lets them go, and waits for their answers.
    async fn end(mut self) -> Result<(), Error> {
        while !self.calls.is_empty() {
            self.gate.released.send_modify(|released| *released += WAVE);
            for _ in 0..WAVE {
                let Some(answer) = self.calls.join_next().await else { break };
                answer??;
            }
        }
        let arrived = self.gate.arrived();
        self.gate.released.send_replace(arrived);
        Ok(())
    }
}

/// The payload that tells a call that is to be held.
pub(super) const HOLD: &[u8] = b"hold";

/// A handler that holds calls, without a connection.
struct Holding {
    gate: Gate,
    projects: Projects,
}

#[tonic::async_trait]
impl ProjectService for Holding {
    async fn create_project(
        &self,
        request: Request<CreateProjectRequest>,
    ) -> Result<Response<CreateProjectResponse>, Status> {
        if request.get_ref().payload == HOLD {
            self.gate.pass().await;
        }
        self.projects.create_project(request).await
    }
}

/// Lets calls pass in the order in which they came.
#[derive(Clone, Debug, Default)]
pub(super) struct Gate {
    arrived: Arc<watch::Sender<usize>>,
    released: Arc<watch::Sender<usize>>,
}

impl Gate {
    /// Returns the number of calls that have come.
    pub(super) fn arrived(&self) -> usize {
        *self.arrived.borrow()
    }

    async fn pass(&self) {
        let mut ticket = 0;
        self.arrived.send_modify(|arrived| {
            ticket = *arrived;
            *arrived += 1;
        });
        // Fails only if the sender is gone, which this is.
        let _ = self.released.subscribe().wait_for(|released| *released > ticket).await;
    }
}
