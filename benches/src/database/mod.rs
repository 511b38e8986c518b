//! Claim, complete and replay on PostgreSQL.
//!
//! | module | holds |
//! |---|---|
//! | `world` | the PostgreSQL server, and the services that use it |
//! | `contender`, `plan` | the ways to answer a call that are compared, and under which loads |
//! | `handler`, `go_interceptor`, `by_hand`, `primary_key` | the handler, the Go interceptor around it, guards that are written by hand, and a look-up by primary key |
//! | `load`, `turns`, `matrix` | concurrent callers, contenders in turn, and what was measured |
//! | `in_flight` | calls beside many that are in flight |
//! | `allocations` | allocations of a call, and the memory of calls in flight |
//! | `counts`, `usage`, `profile` | round trips and log bytes, processor time, and where it goes |
//! | `goals`, `summary`, `findings` | the goals, the answer to "what will it cost me?", and the section of the report |

mod allocations;
mod by_hand;
pub(crate) mod contender;
mod counts;
mod findings;
mod go_interceptor;
mod goals;
mod handler;
mod in_flight;
pub(crate) mod load;
mod matrix;
mod plan;
mod primary_key;
mod profile;
pub(crate) mod proto;
mod summary;
pub(crate) mod turns;
mod usage;
pub(crate) mod world;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use prost::Message as _;
use tcp_proxy::Proxy;
use tonic::service::Routes;
use uuid::Uuid;

use self::{
    allocations::Allocations,
    contender::{Contender, Guard},
    counts::Counts,
    findings::{Distant, Findings},
    goals::{Aim, Subject},
    in_flight::InFlight,
    load::{Client, Keys, Load},
    matrix::Matrix,
    plan::{Call, Row, SMALL},
    profile::Profile,
    proto::{CreateProjectResponse, project_service_client::ProjectServiceClient},
    turns::{Entrant, Turns},
    world::{Served, World},
};
use crate::{Error, context::Context, section::Section};

/// The time that a slower network adds to each round trip.
const ROUND_TRIP: Duration = Duration::from_millis(1);

/// How much of the part is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    All,
    /// The allocations of a call, and the memory of calls in flight.
    Allocations,
    /// The rows that have goals, with the contenders that these compare.
    Goals,
}

/// Which goals' contenders are profiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profiled {
    All,
    Missed,
    None,
}

pub(crate) async fn measure(context: &Context, extent: Extent, profiled: Profiled) -> Result<Section, Error> {
    let world = World::start().await?;
    let near = world.address()?;
    let rows: &[Row] = match extent {
        Extent::All => &plan::ROWS,
        Extent::Allocations => {
            let (server, allocations) = (world.describe().to_owned(), Allocations::count(context, &world)?);
            world.stop().await;
            return Ok(findings::of_allocations(&server, &allocations));
        }
        Extent::Goals => &plan::GOALS,
    };
    let matrices = measure_rows(context, &world, rows, near).await?;
    let in_flight = InFlight::measure(context, &world).await?;
    let mut aims = goals::of(&matrices, &in_flight);
    explain(context, &world, near, &mut aims, profiled).await?;
    if extent == Extent::Goals {
        let server = world.describe().to_owned();
        world.stop().await;
        return Ok(findings::of_goals(&server, &matrices, &in_flight, aims));
    }
    let findings = Findings {
        server: world.describe().to_owned(),
        counts: counts(context, &world, near).await?,
        near: matrices,
        in_flight,
        allocations: Allocations::count(context, &world)?,
        in_process: in_process(context, &world, near).await?,
        distant: distant(context, &world, near).await?,
        aims,
    };
    world.stop().await;
    Ok(findings.into_section())
}

/// Says what limits the goals, from a profile of each contender.
async fn explain(
    context: &Context,
    world: &World,
    near: SocketAddr,
    aims: &mut [Aim],
    profiled: Profiled,
) -> Result<(), Error> {
    let is_profiled = |aim: &Aim| match profiled {
        Profiled::All => true,
        Profiled::Missed => !aim.goal.is_met(),
        Profiled::None => false,
    };
    let mut known: Vec<(Subject, String)> = Vec::new();
    for index in 0..aims.len() {
        let Aim { subject, price, .. } = aims[index];
        if !is_profiled(&aims[index]) {
            continue;
        }
        let found = match known.iter().find(|(other, _)| *other == subject) {
            Some((_, found)) => found.clone(),
            None => {
                context.progress(&format!("profiling: {}", subject.name()));
                let found = profile(context, world, near, subject).await?;
                context.progress(&format!("{}: {found}", subject.name()));
                known.push((subject, found.clone()));
                found
            }
        };
        // One text for all goals of a subject, which the report then has once.
        let of_subject = aims.iter().filter(|aim| aim.subject == subject && is_profiled(aim));
        let mut bases: Vec<_> = of_subject.filter_map(|aim| aim.base.as_deref()).collect();
        bases.dedup();
        let beside = if bases.is_empty() { String::new() } else { format!(" In its turns, {}.", bases.join("; ")) };
        let limit = format!("Of {}, {found}{beside} What it would cost to pass that: {price}", subject.name());
        aims[index].goal.limit = Some(limit);
    }
    Ok(())
}

/// Describes where the time of a contender goes, or why that cannot be said.
async fn profile(context: &Context, world: &World, near: SocketAddr, subject: Subject) -> Result<String, Error> {
    let Subject { call, of, concurrency, payload } = subject;
    let client = Served::start(world.routes(of, near)?).await?;
    let entrant = entrant(context, world, of, client, Load { concurrency, keys: Keys::New, payload }, call).await?;
    Ok(match Profile::of(context, &entrant.load, &entrant.client, &world.processes).await {
        Ok(profile) => profile.describe(),
        Err(error) => format!("there is no profile ({error}); `perf` has to be there, and allowed for this user."),
    })
}

/// Counts one first call and one replay of each contender.
async fn counts(
    context: &Context,
    world: &World,
    near: SocketAddr,
) -> Result<Vec<(Contender, &'static str, Counts)>, Error> {
    let mut counts = Vec::new();
    for (call, contenders) in plan::COUNTED {
        context.progress(&format!("counting the round trips of each {}", call.name()));
        for contender in contenders {
            let client = Served::start(world.routes(*contender, near)?).await?;
            let load = Load { concurrency: 1, keys: Keys::New, payload: SMALL };
            let load = entrant(context, world, *contender, client, load, call).await?.load;
            counts.push((*contender, call.name(), Counts::of(context, world, *contender, &load, near).await?));
        }
    }
    Ok(counts)
}

/// Calls the services without HTTP/2, which leaves the handler, the layer and the database.
async fn in_process(context: &Context, world: &World, near: SocketAddr) -> Result<Vec<Matrix>, Error> {
    let mut matrices = Vec::new();
    for row in plan::IN_PROCESS {
        context.progress(&format!("{} without HTTP/2, {} at once", row.call.name(), row.concurrency));
        let client = |of| Ok::<_, Error>(ProjectServiceClient::<Routes>::new(world.routes(of, near)?));
        let mut entrants = Vec::new();
        for of in row.contenders {
            let load = Load { concurrency: row.concurrency, keys: Keys::New, payload: row.payload };
            entrants.push(entrant(context, world, *of, client(*of)?, load, row.call).await?);
        }
        matrices.push(take_turns(context, world, row, &entrants).await?);
    }
    Ok(matrices)
}

/// Calls services whose database is behind a slower network.
async fn distant(context: &Context, world: &World, near: SocketAddr) -> Result<Distant, Error> {
    let link = Proxy::start(near)?;
    link.delay_answers(ROUND_TRIP);
    let round_trip = world.round_trip(link.address(), context.count(100)).await?;
    context.progress("with 1 ms more for each round trip:");
    Ok(Distant { round_trip, matrices: measure_rows(context, world, &plan::DISTANT, link.address()).await? })
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
        matrices.push(take_turns(context, world, *row, &entrants).await?);
    }
    Ok(matrices)
}

async fn take_turns(
    context: &Context,
    world: &World,
    row: Row,
    entrants: &[Entrant<impl Client>],
) -> Result<Matrix, Error> {
    let turns = Turns::taken(entrants, context.rounds(row.rounds), context.time(row.turn), &world.processes).await?;
    Ok(Matrix { row, turns })
}

/// Prepares a contender for its first turn: its connections are open, their statements prepared, and calls that are to be replayed
/// have been made, whose work is marked as done.
async fn entrant<C: Client>(
    context: &Context,
    world: &World,
    contender: Contender,
    client: C,
    load: Load,
    call: Call,
) -> Result<Entrant<C>, Error> {
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
async fn replay_all(load: &Load, calls: usize, client: &impl Client, world: &World) -> Result<(), Error> {
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
