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
//! | `usage`, `profile` | processor time, and where it goes |
//! | `goals`, `summary`, `findings` | the goals, the answer to "what will it cost me?", and the section of the report |

mod allocations;
pub(crate) mod by_hand;
pub(crate) mod contender;
mod findings;
mod go_interceptor;
mod goals;
pub(crate) mod handler;
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
use uuid::Uuid;

use self::{
    allocations::Allocations,
    contender::{Contender, Guard},
    findings::{Distant, Findings},
    goals::{Aim, Subject},
    in_flight::InFlight,
    load::{Keys, Load},
    matrix::Matrix,
    plan::{Call, Row, SMALL},
    proto::CreateProjectResponse,
    turns::{Entrant, Turns},
    world::{Served, World},
};
use crate::{
    Error,
    args::Args,
    context::Context,
    section::{Goal, Section},
};

/// The time that a slower network adds to each round trip.
const ROUND_TRIP: Duration = Duration::from_millis(1);

/// Measures the part: all of it, what has goals, or allocations alone.
pub(crate) async fn measure(context: &Context, args: &Args) -> Result<Section, Error> {
    let world = World::start().await?;
    let near = world.address()?;
    let mut findings = Findings {
        server: world.describe().to_owned(),
        allocations: Allocations::count(context, &world)?,
        near: Vec::new(),
        in_flight: None,
        goals: Vec::new(),
        distant: None,
    };
    if !args.allocations {
        findings.near = measure_rows(context, &world, &plan::ROWS, near).await?;
        let in_flight = InFlight::measure(context, &world).await?;
        let aims = goals::of(&findings.near, &in_flight);
        findings.goals = explained(context, &world, near, aims, args).await?;
        findings.in_flight = Some(in_flight);
    }
    if !(args.allocations || args.goals) {
        findings.distant = Some(distant(context, &world, near).await?);
    }
    world.stop().await;
    Ok(findings.into_section())
}

/// Says of goals what limits them, from a profile of each contender: of missed ones, or of all or none if that is asked for.
async fn explained(
    context: &Context,
    world: &World,
    near: SocketAddr,
    mut aims: Vec<Aim>,
    args: &Args,
) -> Result<Vec<Goal>, Error> {
    let is_profiled = |aim: &Aim| args.profile || !(args.goals || aim.goal.is_met());
    let mut subjects: Vec<Subject> = Vec::new();
    for aim in aims.iter().filter(|aim| is_profiled(aim)) {
        if !subjects.contains(&aim.subject) {
            subjects.push(aim.subject);
        }
    }
    for subject in subjects {
        context.progress(&format!("profiling: {}", subject.name()));
        let found = profile(context, world, near, subject).await?;
        let mut of_subject: Vec<_> = aims.iter_mut().filter(|aim| aim.subject == subject && is_profiled(aim)).collect();
        // One text for all goals of a subject, which the report then has once for each price.
        let bases: Vec<_> = of_subject.iter().filter_map(|aim| aim.base.as_deref()).collect();
        let beside = if bases.is_empty() { String::new() } else { format!(" In its turns, {}.", bases.join("; ")) };
        let found = format!("Of {}, {found}{beside}", subject.name());
        for aim in &mut of_subject {
            aim.goal.limit = Some(format!("{found} What it would cost to pass that: {}", aim.price));
        }
    }
    Ok(aims.into_iter().map(|aim| aim.goal).collect())
}

/// Describes where the time of a contender goes, or why that cannot be said.
async fn profile(context: &Context, world: &World, near: SocketAddr, subject: Subject) -> Result<String, Error> {
    let Subject { call, concurrency, payload, of } = subject;
    let client = Served::start(world.routes(of, near)?).await?;
    let entrant = entrant(context, world, of, client, Load { concurrency, keys: Keys::New, payload }, call).await?;
    let found = profile::of(context, &entrant, &world.processes).await;
    Ok(found.unwrap_or_else(|error| {
        format!("there is no profile ({error}); `perf` has to be there, and allowed for this user.")
    }))
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
