//! Records that only the holder of a key reads, compared with records in the clear.

use std::{sync::Arc, time::Duration};

use tonic_idempotency::seal::{Key, StaticKeys};
use uuid::Uuid;

use crate::{
    context::Context,
    database::{
        contender::{Contender, Guard, RESERVED, TRANSACTIONAL},
        handler::Projects,
        load::{Keys, Load},
        turns::{Entrant, Turns},
        world::{Served, World, behind_layer, store},
    },
    error::Error,
    report::{Bound, Goal, Section, table},
};

/// The size of a response, in bytes.
const PAYLOAD: usize = 1024;

const CALLERS: usize = 16;

/// The records that are replayed in turn.
const RECORDS: usize = 200;

const ROUNDS: usize = 71;

/// The time of one turn: short, so that the sides that are compared meet the same moments of a machine that others use, too.
const TURN: Duration = Duration::from_millis(150);

const TEXT: &str = "\
Sixteen callers, responses of 1 KiB, on a private PostgreSQL server: with `StaticKeys`, and in the clear. Nothing is replayed from memory, where \
sealed records are never kept. In turns.";

const LIMIT: &str =
    "The cipher, the derivation of its key and the HMAC have a hundredth of the processors' time (by `perf`).";

/// Measures the part.
pub(crate) async fn measure(context: &Context) -> Result<Section, Error> {
    let world = World::start().await?;
    let mut section = Section { title: "Sealed records", text: TEXT.to_owned(), ..Section::default() };
    let mut rows = Vec::new();
    for contender in [RESERVED, TRANSACTIONAL] {
        let sides = [serve(&world, contender, false).await?, serve(&world, contender, true).await?];
        for (calls, bound) in [("first calls", 0.97), ("replays", 0.95)] {
            let turns = compare(context, &world, &sides, calls == "replays").await?;
            let ratio = turns.ratio(true, false, |figures| figures.throughput);
            let name = format!("{calls}, {}", contender.name);
            let of = |seals| turns.spread(seals, |figures| figures.throughput).with_decimals(0);
            rows.push([name.clone(), of(false), of(true), ratio.with_decimals(2)]);
            let measure = format!("sealed records, {name}: throughput");
            let goal = Goal::new(&measure, Bound::AtLeast(bound), ratio, "× in the clear");
            section.goals.push(Goal { limit: Some(LIMIT), ..goal });
        }
    }
    world.stop().await;
    let columns = ["calls", "in the clear, a second", "sealed, a second", "sealed, ×"];
    section.tables.push(table(&format!("{CALLERS} callers, {PAYLOAD} bytes"), columns, rows));
    Ok(section)
}

async fn serve(world: &World, contender: Contender, seals: bool) -> Result<Served, Error> {
    let Guard::Layer(layer) = contender.guard else { return Err("it has the layer".into()) };
    let pool = || world.pool(world.address()?);
    let keys = StaticKeys::new(Key::new("benchmarks", &[7; 32])?);
    let routes = behind_layer(Projects::new(pool()?), store(pool()?, layer), layer, |builder| {
        if seals { builder.seal(keys) } else { builder }
    })?;
    Served::start(routes).await
}

/// Measures both sides: the one that seals is `true`.
async fn compare(context: &Context, world: &World, sides: &[Served; 2], replays: bool) -> Result<Turns<bool>, Error> {
    let (server, time) = (&world.processes, context.time(TURN));
    let mut entrants = Vec::new();
    for (client, seals) in sides.iter().zip([false, true]) {
        let keys: Arc<[Uuid]> = (0..context.count(RECORDS)).map(|_| Uuid::new_v4()).collect();
        let calls = keys.len();
        let recorded = Load { concurrency: CALLERS, keys: Keys::Recorded(keys), payload: PAYLOAD };
        // Opens the connections, prepares their statements, and makes the records that are replayed.
        recorded.run_times(calls, client, server).await?;
        let load = if replays { recorded } else { Load { keys: Keys::New, ..recorded } };
        load.run_for(time, client, server).await?;
        entrants.push(Entrant { contender: seals, client: client.clone(), load });
    }
    Turns::taken(&entrants, context.rounds(ROUNDS), time, server).await
}
