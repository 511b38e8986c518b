//! The layer on each driver, compared with the same handler without it on the same driver.
//!
//! | module | holds |
//! |---|---|
//! | `service` | the service of all drivers, with and without the layer |
//! | `tokio_postgres`, `sqlx`, `diesel`, `sea_orm` | the handler on a driver, and its pool |
//! | `findings` | the section of the report |

mod diesel;
mod findings;
mod sea_orm;
mod service;
mod sqlx;
mod tokio_postgres;

use std::time::Duration;

use self::{
    findings::Findings,
    service::{Handler, Service},
};
use crate::{
    Error,
    context::Context,
    database::{
        load::{Keys, Load},
        turns::{Entrant, Turns},
        world::{Served, World},
    },
    section::Section,
};

/// The concurrent callers.
const CONCURRENCY: usize = 16;

/// The bytes of the payload.
const PAYLOAD: usize = 100;

/// The connections of a driver's pool. The store and the handlers share it.
const CONNECTIONS: usize = 16;

/// The statement by which a connection becomes one of the API's role.
const SET_ROLE: &str = "SET ROLE organization_api";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Driver {
    TokioPostgres,
    Sqlx,
    Diesel,
    SeaOrm,
}

/// The part that answers a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guard {
    /// The handler, without the layer.
    Bare,
    Transactional,
}

/// A way to answer a CreateProject.
type Contender = (Driver, Guard);

type Entrants = Vec<Entrant<Contender>>;

pub(crate) async fn measure(context: &Context) -> Result<Section, Error> {
    let world = World::start().await?;
    let (url, pool) = (world.url(world.address()?)?, world.pool(world.address()?)?);
    let mut entrants = of_driver(context, &world, Driver::TokioPostgres, pool).await?;
    entrants.extend(of_driver(context, &world, Driver::Sqlx, sqlx::Projects::new(&url)?).await?);
    entrants.extend(of_driver(context, &world, Driver::Diesel, diesel::Projects::new(&url)?).await?);
    entrants.extend(of_driver(context, &world, Driver::SeaOrm, sea_orm::Projects::new(url).await?).await?);
    context.progress(&format!("{CONCURRENCY} callers at once, on each driver"));
    let time = context.time(Duration::from_millis(700));
    let turns = Turns::taken(&entrants, context.rounds(7), time, &world.processes).await?;
    let findings = Findings { server: world.describe().to_owned(), turns };
    drop(entrants);
    world.stop().await;
    Ok(findings.into_section())
}

/// Returns the contenders on a driver, each with its load.
async fn of_driver<H: Handler>(
    context: &Context,
    world: &World,
    driver: Driver,
    handler: H,
) -> Result<Entrants, Error> {
    let mut entrants = Vec::new();
    for guard in [Guard::Bare, Guard::Transactional] {
        context.progress(&format!("preparing {} {}", driver.name(), guard.name()));
        let client = Served::start(Service::routes(handler.clone(), guard)?).await?;
        let load = Load { concurrency: CONCURRENCY, keys: Keys::New, payload: PAYLOAD };
        // Opens the connections, and prepares their statements.
        load.run_times(context.count(512), &client, &world.processes).await?;
        entrants.push(Entrant { contender: (driver, guard), client, load });
    }
    Ok(entrants)
}

impl Driver {
    /// The drivers, with our own first.
    const ALL: [Self; 4] = [Self::TokioPostgres, Self::Sqlx, Self::Diesel, Self::SeaOrm];

    fn name(self) -> &'static str {
        match self {
            Self::TokioPostgres => "tokio-postgres",
            Self::Sqlx => "sqlx",
            Self::Diesel => "diesel-async",
            Self::SeaOrm => "SeaORM",
        }
    }
}

impl Guard {
    fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare handler",
            Self::Transactional => "first call, transactional",
        }
    }
}
