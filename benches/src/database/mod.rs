//! Claim, complete and replay on PostgreSQL.
//!
//! | module | holds |
//! |---|---|
//! | `world` | the PostgreSQL server, and the services that use it |
//! | `contender` | the ways to answer a call that are compared |
//! | `handler`, `go_interceptor`, `primary_key` | the handler, the Go interceptor around it, and a look-up by primary key |
//! | `link` | a slower network |
//! | `load`, `turns` | concurrent callers, and contenders in turn |
//! | `counts`, `usage` | round trips and log bytes, and processor time |
//! | `findings` | the section of the report |

pub(crate) mod contender;
mod counts;
mod findings;
mod go_interceptor;
mod handler;
pub(crate) mod load;
mod primary_key;
pub(crate) mod proto;
pub(crate) mod turns;
mod usage;
pub(crate) mod world;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use prost::Message as _;
use tcp_proxy::Proxy;
use tonic::service::Routes;
use uuid::Uuid;

use self::{
    contender::{
        BARE, Contender, FROM_MEMORY, GO_INTERCEPTOR, GO_INTERCEPTOR_PARSED, Guard, PRIMARY_KEY, RESERVED,
        RESERVED_HERE, RESERVED_PARSED, TRANSACTIONAL, TRANSACTIONAL_PARSED,
    },
    counts::Counts,
    findings::{Distant, Findings, Matrix},
    load::{Client, Keys, Load},
    proto::{CreateProjectResponse, project_service_client::ProjectServiceClient},
    turns::{Entrant, Turns},
    world::{Served, World},
};
use crate::{Error, context::Context, section::Section};

/// The contenders for first calls.
const FIRST: [Contender; 8] = [
    BARE,
    GO_INTERCEPTOR,
    GO_INTERCEPTOR_PARSED,
    RESERVED,
    RESERVED_PARSED,
    RESERVED_HERE,
    TRANSACTIONAL,
    TRANSACTIONAL_PARSED,
];

/// The contenders for replays.
const AGAIN: [Contender; 6] =
    [PRIMARY_KEY, GO_INTERCEPTOR, GO_INTERCEPTOR_PARSED, RESERVED, TRANSACTIONAL, FROM_MEMORY];

/// The contenders with a slower network.
const FIRST_FAR: [Contender; 5] = [BARE, GO_INTERCEPTOR, RESERVED, RESERVED_HERE, TRANSACTIONAL];
const AGAIN_FAR: [Contender; 5] = [PRIMARY_KEY, GO_INTERCEPTOR, RESERVED, TRANSACTIONAL, FROM_MEMORY];

/// The concurrency and the payload at which the goals are measured.
const CONCURRENCY: usize = 16;
const CONCURRENCIES: [usize; 3] = [1, CONCURRENCY, 64];
const SMALL: usize = 100;
const PAYLOADS: [usize; 2] = [SMALL, 100_000];

/// The time that a slower network adds to each round trip.
const ROUND_TRIP: Duration = Duration::from_millis(1);

pub(crate) async fn measure(context: &Context) -> Result<Section, Error> {
    let world = World::start().await?;
    let near = world.address()?;
    let findings = Findings {
        server: world.describe().to_owned(),
        counts: counts(context, &world, near).await?,
        first: first_calls(context, &world, near).await?,
        again: calls_again(context, &world, near).await?,
        in_process: in_process(context, &world, near).await?,
        distant: distant(context, &world, near).await?,
    };
    world.stop().await;
    Ok(findings.into_section())
}

/// Counts one first call and one replay of each contender.
async fn counts(
    context: &Context,
    world: &World,
    near: SocketAddr,
) -> Result<Vec<(Contender, &'static str, Counts)>, Error> {
    let mut counts = Vec::new();
    for contender in FIRST {
        context.progress(&format!("counting first calls: {}", contender.name));
        let load = Load { concurrency: 1, keys: Keys::New, payload: SMALL };
        counts.push((contender, "first call", Counts::of(context, world, contender, &load, near).await?));
    }
    for contender in AGAIN {
        context.progress(&format!("counting replays: {}", contender.name));
        let client = Served::start(world.routes(contender, near)?).await?;
        let keys = recorded(context, world, contender, &client, SMALL).await?;
        let load = Load { concurrency: 1, keys, payload: SMALL };
        counts.push((contender, "replay", Counts::of(context, world, contender, &load, near).await?));
    }
    Ok(counts)
}

async fn first_calls(context: &Context, world: &World, near: SocketAddr) -> Result<Vec<Matrix>, Error> {
    let mut matrix = Vec::new();
    let clients = clients(world, near, &FIRST).await?;
    for payload in PAYLOADS {
        for concurrency in CONCURRENCIES {
            context.progress(&format!("first calls, {concurrency} at once, {payload} bytes"));
            let load = Load { concurrency, keys: Keys::New, payload };
            let entrants = clients.iter().map(|(contender, client)| Entrant {
                contender: *contender,
                client: client.clone(),
                load: load.clone(),
            });
            matrix.push(take_turns(context, world, &entrants.collect::<Vec<_>>(), concurrency, payload).await?);
        }
    }
    Ok(matrix)
}

async fn calls_again(context: &Context, world: &World, near: SocketAddr) -> Result<Vec<Matrix>, Error> {
    let mut matrix = Vec::new();
    let clients = clients(world, near, &AGAIN).await?;
    for payload in PAYLOADS {
        let entrants = entrants_again(context, world, &clients, payload).await?;
        for concurrency in CONCURRENCIES {
            context.progress(&format!("replays, {concurrency} at once, {payload} bytes"));
            let entrants: Vec<_> = entrants.iter().map(|entrant| at_once(entrant, concurrency)).collect();
            matrix.push(take_turns(context, world, &entrants, concurrency, payload).await?);
        }
    }
    Ok(matrix)
}

/// Calls the services without HTTP/2, which leaves the handler, the layer and the database.
async fn in_process(context: &Context, world: &World, near: SocketAddr) -> Result<[Turns; 2], Error> {
    context.progress("first calls, without HTTP/2");
    let mut first = Vec::new();
    for contender in FIRST {
        let client = ProjectServiceClient::<Routes>::new(world.routes(contender, near)?);
        let load = Load { concurrency: CONCURRENCY, keys: Keys::New, payload: SMALL };
        first.push(Entrant { contender, client, load });
    }
    let time = context.time(Duration::from_millis(600));
    let turns = Turns::taken(&first, context.rounds(3), time, &world.processes).await?;
    // Closes their connections, as the server accepts a limited number.
    drop(first);
    context.progress("replays, without HTTP/2");
    let mut clients = Vec::new();
    for contender in AGAIN {
        clients.push((contender, ProjectServiceClient::<Routes>::new(world.routes(contender, near)?)));
    }
    let again: Vec<_> = entrants_again(context, world, &clients, SMALL).await?;
    let again: Vec<_> = again.iter().map(|entrant| at_once(entrant, CONCURRENCY)).collect();
    let again = Turns::taken(&again, context.rounds(3), time, &world.processes).await?;
    Ok([turns, again])
}

/// Calls services whose database is behind a slower network.
async fn distant(context: &Context, world: &World, near: SocketAddr) -> Result<Distant, Error> {
    context.progress("calls with 1 ms more for each round trip");
    let link = Proxy::start(near)?;
    link.delay_answers(ROUND_TRIP);
    let round_trip = world.round_trip(link.address(), context.count(100)).await?;
    let time = context.time(Duration::from_millis(800));
    let mut first = Vec::new();
    for (contender, client) in clients(world, link.address(), &FIRST_FAR).await? {
        first.push(Entrant { contender, client, load: Load { concurrency: 1, keys: Keys::New, payload: SMALL } });
    }
    let alone = Turns::taken(&first, context.rounds(5), time, &world.processes).await?;
    let many: Vec<_> = first.iter().map(|entrant| at_once(entrant, CONCURRENCY)).collect();
    let many = Turns::taken(&many, context.rounds(3), time, &world.processes).await?;
    let again = clients(world, link.address(), &AGAIN_FAR).await?;
    let again = entrants_again(context, world, &again, SMALL).await?;
    let again = Turns::taken(&again, context.rounds(3), time, &world.processes).await?;
    Ok(Distant { round_trip, alone, many, again })
}

async fn take_turns(
    context: &Context,
    world: &World,
    entrants: &[Entrant<impl Client>],
    concurrency: usize,
    payload: usize,
) -> Result<Matrix, Error> {
    let goals_are_here = concurrency == CONCURRENCY && payload == SMALL;
    let (rounds, milliseconds) = if goals_are_here { (7, 700) } else { (3, 400) };
    let time = context.time(Duration::from_millis(milliseconds));
    let turns = Turns::taken(entrants, context.rounds(rounds), time, &world.processes).await?;
    Ok(Matrix { concurrency, payload, turns })
}

async fn clients(
    world: &World,
    database: SocketAddr,
    contenders: &[Contender],
) -> Result<Vec<(Contender, Served)>, Error> {
    let mut clients = Vec::with_capacity(contenders.len());
    for contender in contenders {
        clients.push((*contender, Served::start(world.routes(*contender, database)?).await?));
    }
    Ok(clients)
}

/// Returns each client with a load of calls that it has answered before.
async fn entrants_again<C: Client>(
    context: &Context,
    world: &World,
    clients: &[(Contender, C)],
    payload: usize,
) -> Result<Vec<Entrant<C>>, Error> {
    let mut entrants = Vec::with_capacity(clients.len());
    for (contender, client) in clients {
        let keys = recorded(context, world, *contender, client, payload).await?;
        let load = Load { concurrency: 1, keys, payload };
        entrants.push(Entrant { contender: *contender, client: client.clone(), load });
    }
    Ok(entrants)
}

fn at_once<C: Clone>(entrant: &Entrant<C>, concurrency: usize) -> Entrant<C> {
    Entrant { load: Load { concurrency, ..entrant.load.clone() }, ..entrant.clone() }
}

/// Makes calls whose work is then marked as done, and returns their keys.
async fn recorded(
    context: &Context,
    world: &World,
    contender: Contender,
    client: &impl Client,
    payload: usize,
) -> Result<Keys, Error> {
    let keys: Arc<[Uuid]> =
        (0..context.count(if payload > SMALL { 64 } else { 512 })).map(|_| Uuid::new_v4()).collect();
    if contender.guard == Guard::PrimaryKey {
        let response = CreateProjectResponse { project_id: Uuid::nil().to_string(), payload: vec![0x5a; payload] };
        world.record_responses(&keys, &response.encode_to_vec()).await?;
    }
    let load = Load { concurrency: 4, keys: Keys::Recorded(Arc::clone(&keys)), payload };
    load.run_times(keys.len(), client, &world.processes).await?;
    world.finish_all_work().await?;
    if contender == FROM_MEMORY {
        // The layer remembers a replay once it has given it with a final status.
        load.run_times(keys.len(), client, &world.processes).await?;
    }
    Ok(Keys::Recorded(keys))
}
