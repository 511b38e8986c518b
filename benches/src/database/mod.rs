//! Claim, complete and replay on PostgreSQL.
//!
//! | module | holds |
//! |---|---|
//! | `world` | the PostgreSQL server, and the services that use it |
//! | `contender`, `plan` | the ways to answer a call that are compared, and under which loads |
//! | `handler`, `go_interceptor`, `by_hand`, `primary_key` | the handler, the Go interceptor around it, guards that are written by hand, and a look-up by primary key |
//! | `load`, `turns`, `usage` | concurrent callers, contenders in turn, and processor time |
//! | `in_flight` | calls beside many that are in flight |
//! | `allocations` | allocations of a call, and the memory of calls in flight |
//! | `goals`, `findings` | the goals, and the tables of the report |

mod allocations;
pub(crate) mod by_hand;
pub(crate) mod contender;
mod findings;
mod go_interceptor;
mod goals;
pub(crate) mod handler;
mod in_flight;
pub(crate) mod load;
mod plan;
mod primary_key;
pub(crate) mod proto;
pub(crate) mod turns;
mod usage;
pub(crate) mod world;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use prost::Message as _;
use tcp_proxy::Proxy;
use uuid::Uuid;

use self::{
    allocations::Allocations,
    contender::{Contender, Guard},
    findings::Matrix,
    in_flight::InFlight,
    load::{Keys, Load},
    plan::{Call, Row, SMALL},
    proto::CreateProjectResponse,
    turns::{Entrant, Turns},
    world::{Served, World},
};
use crate::{
    context::Context,
    error::Error,
    report::{Section, seconds},
};

/// The time that a slower network adds to each round trip.
const ROUND_TRIP: Duration = Duration::from_millis(1);

/// Measures the part: all of it, or only what has goals.
pub(crate) async fn measure(context: &Context, only_goals: bool) -> Result<Section, Error> {
    let world = World::start().await?;
    let address = world.address()?;
    let allocations = Allocations::count(context, &world)?;
    let near = measure_rows(context, &world, &plan::ROWS, address).await?;
    let in_flight = InFlight::measure(context, &world).await?;
    let goals = [goals::of(&near, &in_flight), allocations.goals().into()].concat();
    let mut tables: Vec<_> = near.iter().map(|matrix| findings::figures_table(matrix, "")).collect();
    let mut summary = None;
    if !only_goals {
        // The same services, whose database is behind a slower network.
        let link = Proxy::start(address)?;
        link.delay_answers(ROUND_TRIP);
        let round_trip = world.round_trip(link.address(), context.count(100)).await?;
        let far = measure_rows(context, &world, &plan::DISTANT, link.address()).await?;
        let how = format!(", a round trip takes {}", seconds(round_trip.as_secs_f64()));
        tables.extend(far.iter().map(|matrix| findings::figures_table(matrix, &how)));
        summary = Some(findings::summary(&near, &far, round_trip));
    }
    tables.push(in_flight.table());
    tables.extend(allocations.tables());
    let text = format!("{}\n{}.", findings::TEXT, world.describe());
    world.stop().await;
    Ok(Section { title: "Claim, complete and replay on PostgreSQL", text, summary, tables, goals })
}

/// Measures each row, with services of its own: their connections are closed before the next one, as the server accepts a limited
/// number.
async fn measure_rows(
    context: &Context,
    world: &World,
    rows: &[Row],
    database: SocketAddr,
) -> Result<Vec<Matrix>, Error> {
    let mut matrices = Vec::with_capacity(rows.len());
    for row in rows {
        let Row { call, concurrency, payload, .. } = *row;
        context.progress(&format!("{}: {concurrency} at once, {payload} bytes", call.name()));
        let mut entrants = Vec::with_capacity(row.contenders.len());
        for of in row.contenders {
            let client = Served::start(world.routes(*of, database)?).await?;
            let load = Load { concurrency, keys: Keys::New, payload };
            entrants.push(entrant(context, world, *of, client, load, call).await?);
        }
        let time = context.time(row.turn);
        let turns = Turns::taken(&entrants, context.rounds(plan::ROUNDS), time, &world.processes).await?;
        matrices.push(Matrix { row: *row, turns });
    }
    Ok(matrices)
}

/// Prepares a contender for its first turn: its connections are open, their statements prepared, and calls that are to be replayed
/// have been made, whose work is marked as done.
async fn entrant(
    context: &Context,
    world: &World,
    contender: Contender,
    client: Served,
    load: Load,
    call: Call,
) -> Result<Entrant, Error> {
    let Load { concurrency, payload, .. } = load;
    let calls = context.count(if payload > SMALL { 64 } else { 256 });
    let keys = match call {
        Call::First => Keys::New,
        Call::Replay => {
            let keys: Arc<[Uuid]> = (0..calls).map(|_| Uuid::new_v4()).collect();
            if contender.guard == Guard::PrimaryKey {
                let project_id = Uuid::nil().to_string();
                let response = CreateProjectResponse { project_id, payload: vec![0x5a; payload] };
                world.record_responses(&keys, &response.encode_to_vec()).await?;
            }
            Keys::Recorded(keys)
        }
    };
    let load = Load { keys, ..load };
    let first = Load { concurrency: concurrency.max(plan::SEVERAL), ..load.clone() };
    first.run_times(calls, &client, &world.processes).await?;
    world.finish_all_work().await?;
    if call == Call::Replay {
        replay_all(&first, calls, &client, world).await?;
    }
    Ok(Entrant { contender, client, load })
}

/// Replays each call once: the measured ones are in a stream of replays, and the layer remembers those that it has given with a final
/// status. While the machine is busy, an outcome may be recorded after its answer; then this is tried again.
async fn replay_all(load: &Load, calls: usize, client: &Served, world: &World) -> Result<(), Error> {
    const TRIES: usize = 10;
    const PAUSE: Duration = Duration::from_secs(1);
    for _ in 1..TRIES {
        if load.run_times(calls, client, &world.processes).await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
    load.run_times(calls, client, &world.processes).await?;
    Ok(())
}
