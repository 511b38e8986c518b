//! Transactions that lose against each other, compared with a loop that is written by hand.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use deadpool_postgres::Pool;
use futures_util::future::try_join_all;
use organization::CLUSTER;
use tokio::time::sleep;
use tokio_postgres::{Error as PostgresError, IsolationLevel, error::SqlState, types::Type};
use tonic::{Code, Request, Response, Status, transport::Channel};
use tonic_idempotency::{
    Execution, Transaction,
    policy::{Isolation, Policies},
    store::TransactionError,
};
use tonic_idempotency_client::{IdempotencyClient, IdempotencyClientLayer};
use tower_layer::Layer as _;

use crate::{
    context::Context,
    database::{
        contender::{Guard, TRANSACTIONAL},
        handler::{internal, key},
        proto::{
            CreateProjectRequest, CreateProjectResponse, PROJECT,
            project_service_client::ProjectServiceClient,
            project_service_server::{ProjectService, ProjectServiceServer},
        },
        world::{Served, World, authenticated, behind_layer, store},
    },
    error::Error,
    report::{Bound, Goal, Section, Spread, table},
};

const CALLERS: usize = 16;

/// The calls of a caller in a round.
const CALLS: usize = 20;

/// The rows that all callers read and write.
const ROWS: u128 = 4;

const ROUNDS: usize = 9;

/// How long a handler works between its reading and its writing.
const WORK: [Duration; 2] = [Duration::ZERO, Duration::from_millis(10)];

const TEXT: &str = "\
Sixteen callers read and write four rows at SERIALIZABLE, on a private PostgreSQL server; a handler works, without the processor, for this time \
between its reading and its writing. Half of the transactions and more lose. They are run again by a loop in the handler that is written by hand, without the layer; by the layer; or by a client with `IdempotencyClientLayer`, \
because the handler begins with `effect_committed()`, so that the server refuses the call. In turns.";

const LIMIT: &str = "\
Each attempt claims its key anew: beside the loop's four statements it has a lock, a look at the key on another connection, which calls share, and \
a record or a rollback. A handler that does nothing else has the processors busy, and then that is twice the work of an attempt by hand.";

const READ: &str = "SELECT n FROM benchmarks.counters WHERE id = $1";

const WRITE: &str = "UPDATE benchmarks.counters SET n = $2 WHERE id = $1";

/// The side that runs a transaction again that has lost.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeats {
    Client,
    Layer,
    Loop,
}

const SIDES: [(Repeats, &str); 3] = [
    (Repeats::Loop, "a loop by hand, without the layer"),
    (Repeats::Layer, "the layer"),
    (Repeats::Client, "the client's layer"),
];

/// Measures the part.
pub(crate) async fn measure(context: &Context) -> Result<Section, Error> {
    let world = World::start().await?;
    let mut section = Section { title: "Conflicts", text: TEXT.to_owned(), ..Section::default() };
    for work in WORK {
        compare(context, &world, work, &mut section).await?;
    }
    world.stop().await;
    Ok(section)
}

/// Compares the sides with a handler that works so long.
async fn compare(context: &Context, world: &World, work: Duration, section: &mut Section) -> Result<(), Error> {
    let mut sides = Vec::new();
    for (repeats, _) in SIDES {
        sides.push(Side::start(world, repeats, work).await?);
    }
    let mut rates = [const { Vec::new() }; SIDES.len()];
    // The first round opens the connections, and prepares their statements.
    for round in 0..=context.rounds(ROUNDS) {
        for (side, rates) in sides.iter().zip(&mut rates) {
            let calls = context.count(CALLS);
            let begun = Instant::now();
            try_join_all((0..CALLERS).map(|_| side.calls(calls))).await?;
            if round > 0 {
                rates.push((CALLERS * calls) as f64 / begun.elapsed().as_secs_f64());
            }
        }
    }
    let calls = (CALLERS * context.count(CALLS) * (context.rounds(ROUNDS) + 1)) as f64;
    let row = |(((_, name), side), rates): (((Repeats, &str), &Side), &Vec<f64>)| {
        let attempts = side.attempts.load(Ordering::Relaxed) as f64 / calls;
        [name.to_owned(), format!("{attempts:.1}"), Spread::of(rates.iter().copied()).with_decimals(0)]
    };
    let rows = SIDES.into_iter().zip(&sides).zip(&rates).map(row);
    let caption = format!("{CALLERS} callers, {ROWS} rows, {} ms of work", work.as_millis());
    section.tables.push(table(&caption, ["run again by", "attempts of a call", "calls a second"], rows));
    let [by_hand, layer, client] = &rates;
    let measure = format!("transactions that lose, {} ms of work: throughput", work.as_millis());
    let over_by_hand = Goal::new(&measure, Bound::AtLeast(0.9), Spread::of_ratios(layer, by_hand), "× a loop by hand");
    section.goals.extend([
        Goal { limit: Some(LIMIT), ..over_by_hand },
        Goal::new(&measure, Bound::AtLeast(1.0), Spread::of_ratios(layer, client), "× the client's layer"),
    ]);
    Ok(())
}

/// A server, and a client of it.
struct Side {
    client: ProjectServiceClient<IdempotencyClient<Channel>>,
    /// How often its handler has tried.
    attempts: Arc<AtomicU64>,
    /// Runs while this lives.
    _served: Served,
}

impl Side {
    async fn start(world: &World, repeats: Repeats, work: Duration) -> Result<Self, Error> {
        let Guard::Layer(layer) = TRANSACTIONAL.guard else { return Err("it has the layer".into()) };
        let pool = || world.pool(world.address()?);
        let attempts = Arc::new(AtomicU64::new(0));
        let handler = Counters { pool: pool()?, repeats, work, attempts: Arc::clone(&attempts) };
        let routes = match repeats {
            Repeats::Loop => authenticated(ProjectServiceServer::new(handler)),
            Repeats::Client | Repeats::Layer => behind_layer(handler, store(pool()?, layer), layer, |builder| {
                builder.policies(Policies { isolation: Isolation::Serializable, ..Policies::default() })
            })?,
        };
        let served = Served::start(routes).await?;
        let layer = IdempotencyClientLayer::builder(PROJECT).build()?;
        Ok(Self { client: ProjectServiceClient::new(layer.layer(served.channel())), attempts, _served: served })
    }

    /// Makes these calls, one after the other.
    async fn calls(&self, calls: usize) -> Result<(), Error> {
        let mut client = self.client.clone();
        for _ in 0..calls {
            // The client's layer gives up, too, when too many of its calls have to be sent again.
            while let Err(status) = client.create_project(message()).await {
                if status.code() != Code::Aborted {
                    return Err(status.into());
                }
            }
        }
        Ok(())
    }
}

fn message() -> CreateProjectRequest {
    CreateProjectRequest { cluster_id: CLUSTER.to_string(), name: "project".to_owned(), payload: Vec::new() }
}

/// Counts calls in one of a few rows, by reading and writing.
struct Counters {
    pool: Pool,
    repeats: Repeats,
    work: Duration,
    attempts: Arc<AtomicU64>,
}

#[tonic::async_trait]
impl ProjectService for Counters {
    async fn create_project(
        &self,
        request: Request<CreateProjectRequest>,
    ) -> Result<Response<CreateProjectResponse>, Status> {
        if self.repeats == Repeats::Client {
            Execution::from_request(&request).effect_committed();
        }
        let row = i32::try_from(key(&request)?.as_u128() / 2 % ROWS).map_err(internal)?;
        match self.repeats {
            Repeats::Loop => self.count(row).await?,
            Repeats::Client | Repeats::Layer => {
                self.attempts.fetch_add(1, Ordering::Relaxed);
                count_in(&Transaction::from_request(&request)?, row, self.work).await?;
            }
        }
        Ok(Response::new(CreateProjectResponse { project_id: String::new(), payload: Vec::new() }))
    }
}

impl Counters {
    /// Counts in a transaction of its own, which it repeats as the layer does.
    async fn count(&self, row: i32) -> Result<(), Status> {
        let mut pause = Duration::ZERO;
        loop {
            match self.try_to_count(row).await? {
                Ok(()) => return Ok(()),
                Err(error) if error.code() == Some(&SqlState::T_R_SERIALIZATION_FAILURE) => {}
                Err(error) => return Err(internal(error)),
            }
            sleep(pause).await;
            pause = (2 * pause).clamp(Duration::from_millis(2), Duration::from_millis(64));
        }
    }

    async fn try_to_count(&self, row: i32) -> Result<Result<(), PostgresError>, Status> {
        self.attempts.fetch_add(1, Ordering::Relaxed);
        let mut connection = self.pool.get().await.map_err(internal)?;
        let counted = async {
            let begun = connection.build_transaction().isolation_level(IsolationLevel::Serializable).start().await?;
            let read = begun.prepare_typed_cached(READ, &[Type::INT4]).await?;
            let write = begun.prepare_typed_cached(WRITE, &[Type::INT4, Type::INT8]).await?;
            let n: i64 = begun.query_one(&read, &[&row]).await?.try_get(0)?;
            worked(self.work).await;
            begun.execute(&write, &[&row, &(n + 1)]).await?;
            begun.commit().await
        };
        Ok(counted.await)
    }
}

async fn count_in(transaction: &Transaction, row: i32, work: Duration) -> Result<(), TransactionError> {
    let (read, write) = (transaction.prepare_cached(READ).await?, transaction.prepare_cached(WRITE).await?);
    let n: i64 = transaction.query_one(&read, &[&row]).await?.get(0);
    worked(work).await;
    transaction.execute(&write, &[&row, &(n + 1)]).await?;
    Ok(())
}

/// Works for this time, without the processor.
async fn worked(work: Duration) {
    if !work.is_zero() {
        sleep(work).await;
    }
}
