//! The layer on each driver, compared with the bare handler on that driver.
//!
//! | module | holds |
//! |---|---|
//! | `service` | the service of all drivers, with and without the layer |
//! | `tokio_postgres`, `sqlx`, `diesel`, `sea_orm` | the handler on a driver, and its pool |

mod diesel;
mod sea_orm;
mod service;
mod sqlx;
mod tokio_postgres;

use std::time::Duration;

use self::service::{Guard, Handler, Service};
use crate::{
    context::Context,
    database::{
        load::{Keys, Load},
        turns::{Entrant, Turns},
        world::{Served, World},
    },
    error::Error,
    report::{Bound, Goal, Section, Spread, table},
};

/// The concurrent callers.
const CONCURRENCY: usize = 16;

/// The bytes of the payload.
const PAYLOAD: usize = 100;

/// The drivers, our own first; the others with the reason for their limit.
const DRIVERS: [(&str, Option<&str>); 4] = [
    ("tokio-postgres", None),
    ("sqlx", Some(SQLX_LIMIT)),
    ("diesel-async", Some(DIESEL_LIMIT)),
    ("SeaORM", Some(SQLX_LIMIT)),
];

/// A way to answer a CreateProject: a driver, by its name, and a guard.
type Contender = (&'static str, Guard);

type Entrants = Vec<Entrant<Contender>>;

pub(crate) async fn measure(context: &Context) -> Result<Section, Error> {
    let world = World::start().await?;
    let (url, pool) = (world.url(world.address()?)?, world.pool(world.address()?)?);
    let [ours, sqlx, diesel, sea_orm] = DRIVERS.map(|(name, _)| name);
    let mut entrants = of_driver(context, &world, ours, pool).await?;
    entrants.extend(of_driver(context, &world, sqlx, sqlx::Projects::new(&url)?).await?);
    entrants.extend(of_driver(context, &world, diesel, diesel::Projects::new(&url)?).await?);
    entrants.extend(of_driver(context, &world, sea_orm, sea_orm::Projects::new(url).await?).await?);
    context.progress(&format!("{CONCURRENCY} callers at once, on each driver"));
    let time = context.time(Duration::from_millis(700));
    let turns = Turns::taken(&entrants, context.rounds(7), time, &world.processes).await?;
    drop(entrants);
    let text = format!("{TEXT}\n\n{}.", world.describe());
    world.stop().await;
    let ratios = |driver| turns.throughput_ratios((driver, Guard::Transactional), (driver, Guard::Bare));
    let row = |(driver, _)| {
        let [bare, guarded] = [Guard::Bare, Guard::Transactional].map(|guard| turns.rate((driver, guard)));
        [driver.to_owned(), bare, guarded, Spread::of(ratios(driver)).with_decimals(2)]
    };
    let columns = ["", "bare handler", "first call, transactional", "× bare"];
    let tables = vec![table(&format!("Throughput: {CONCURRENCY} at once, {PAYLOAD} bytes"), columns, DRIVERS.map(row))];
    let goal = |(driver, limit)| {
        let measure = format!(
            "first call, transactional, {CONCURRENCY} at once, {driver}: throughput over the bare handler's on the same driver"
        );
        let ratio = Spread::of_ratios(&ratios(driver), &ratios(ours));
        Goal { limit, ..Goal::new(measure, Bound::AtLeast(1.0), ratio, format!("× that of {ours}")) }
    };
    let goals = DRIVERS[1..].iter().copied().map(goal).collect();
    Ok(Section { title: "The layer on each driver", text, tables, goals, ..Section::default() })
}

/// Returns the contenders on a driver, each with its load.
async fn of_driver<H: Handler>(
    context: &Context,
    world: &World,
    driver: &'static str,
    handler: H,
) -> Result<Entrants, Error> {
    let mut entrants = Vec::new();
    for guard in [Guard::Bare, Guard::Transactional] {
        context.progress(&format!("preparing {driver}, {guard:?}"));
        let client = Served::start(Service::routes(handler.clone(), guard)?).await?;
        let load = Load { concurrency: CONCURRENCY, keys: Keys::New, payload: PAYLOAD };
        // Opens the connections, and prepares their statements.
        load.run_times(context.count(512), &client, &world.processes).await?;
        entrants.push(Entrant { contender: (driver, guard), client, load });
    }
    Ok(entrants)
}

const TEXT: &str = "\
    The handler is written once for each driver, as an application on that driver has it: BEGIN, the user, one INSERT, COMMIT. The \
    driver keeps its statements prepared. **× bare** is the throughput with the layer, divided by that of the bare handler on the same driver. \
    Sixteen callers call over HTTP/2, as above, with 100 bytes; the pool of a driver has 16 connections, and the \
    store shares it with the handlers. All measurements take turns, in the same rounds.\n\n\
    The goal: a driver's ratio is not below that of tokio-postgres, which can send BEGIN with the claim, and the record with \
    COMMIT.";

const SQLX_LIMIT: &str = "\
    Not measured apart. Two round trips more than on tokio-postgres: sqlx sends one statement at a time, so a transactional call waits for BEGIN, the claim, the record and COMMIT, one after \
    another; on tokio-postgres BEGIN rides with the claim and COMMIT with the record. The bare handlers differ only by sqlx's ping. \
    Claim and COMMIT could be sent as one text with literals; the server would parse that text anew for each call, and log it.";

const DIESEL_LIMIT: &str = "\
    Not measured apart. One round trip more than on tokio-postgres: BEGIN rides with the claim, but COMMIT waits for the record: \
    diesel-async cannot tell whether the record's statement is prepared on the connection. If it is not, a COMMIT sent behind the record \
    would overtake it. If the goal is missed by little, the spread of the rounds is wider than that.";
