//! Clients that die: processes, each with a journal of its operations, killed at each step of a call as servers and database are.
//!
//! ```text
//!   clients (processes, with a journal) ──▶ front ──▶ servers (processes) ──▶ proxies ──▶ PostgreSQL
//!      ▲ killed                               │ keys     ▲ killed               ▲ cut       ▲ killed
//!      └── lives                              └──▶ audit ◀── rows
//! ```
//!
//! A client gets an operation's number, and calls with a key that the layer makes: that key is in its journal alone. When a client has
//! died, its next life sends what the journal has. An operation that was not written before the client died has not begun, and is
//! handed out again. The front distorts a third of the answers, as proxies do: an operation may only end when a server's own answer was passed on.

mod audit;
mod call;
mod client;
mod distortion;
mod front;
mod step;

use std::{env, sync::Arc};

use clap::ValueEnum;
use tokio::task::JoinSet;
use uuid::Uuid;

pub use self::call::{CallArgs, call};
use self::{audit::Audit, client::Client, front::Front};
use crate::{
    auditor::Rows,
    error::Error,
    faults::{Director, Stage},
    fleet::{Fleet, Orders, Rotation, Setting},
    journal::Journal,
    mode::Mode,
    pace::Pace,
    plan::Plan,
    progress::Progress,
    schedule::{Order, Planned},
    topology::Database,
    trial::standstill,
};

/// A guard that is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Without {
    /// A client that has died does not have its journal any more.
    Journal,
    /// Each attempt has a key of its own.
    Key,
    /// An answer without a gRPC status is taken for a success.
    Status,
}

/// Carries out the plan with clients that die, and counts what is left.
///
/// # Errors
///
/// The run could not be carried out; this does not mean that a promise was broken.
pub(crate) async fn run(plan: &Plan, mode: Mode, without: Option<Without>) -> Result<Audit, Error> {
    let database = Arc::new(Database::start(plan).await?);
    let ended = tokio::select! {
        ended = run_on(plan, mode, without, &database) => ended,
        error = database.ended() => Err(error),
    };
    if let Some(database) = Arc::into_inner(database) {
        database.stop().await;
    }
    ended
}

async fn run_on(plan: &Plan, mode: Mode, without: Option<Without>, database: &Arc<Database>) -> Result<Audit, Error> {
    let journal = Arc::new(Journal::new());
    let setting = Setting {
        arguments: plan.server(mode),
        lease: plan.lease,
        journal: Arc::clone(&journal),
        orders: Arc::new(Orders::default()),
        rotation: Arc::new(Rotation::default()),
        verbose: plan.verbose,
    };
    let fleet = Fleet::start(setting.clone(), plan.servers, database).await?;
    let front = Front::start(Arc::clone(&setting.rotation), plan.seed).await?;
    let begun = journal.now();
    let progress = Progress::start(mode, Arc::clone(&journal), plan.of_clients);
    let pace = Arc::new(Pace::new(plan.of_clients, plan.topology));
    let director = Director::start(stage(plan, mode, database, &setting, &pace, &fleet), schedule(plan, mode));
    let directory = Directory::new()?;
    let mut clients = JoinSet::new();
    for number in 0..plan.clients {
        let file = directory.0.join(format!("{number}.journal"));
        let client =
            Client::new(number, file, front.address, Arc::clone(&pace), Arc::clone(&journal), plan.seed, without);
        clients.spawn(client.run());
    }
    let mut ends = client::Ends::default();
    let ended = async {
        while let Some(ended) = clients.join_next().await {
            ends += ended??;
        }
        Ok::<_, Error>(())
    };
    tokio::select! {
        ended = ended => ended?,
        error = director.failed() => return Err(error),
        error = standstill(&journal) => return Err(error),
    }
    let took = journal.now() - begun;
    director.finish().await?;
    fleet.calm().await?;
    fleet.stop().await;
    drop(progress);
    let rows = Rows::read(&database.connect().await?).await?;
    let entries = std::mem::take(&mut *journal.entries());
    Ok(Audit::new(plan, mode, took, &entries, &ends, &front, &rows))
}

fn stage(
    plan: &Plan,
    mode: Mode,
    database: &Arc<Database>,
    setting: &Setting,
    pace: &Arc<Pace>,
    fleet: &Fleet,
) -> Stage {
    Stage {
        behind_bouncer: database.behind_bouncer().cloned(),
        database: Arc::clone(database),
        journal: Arc::clone(&setting.journal),
        mode,
        moving: None,
        operations: Arc::clone(&plan.operations),
        orders: Arc::clone(&setting.orders),
        pace: Arc::clone(pace),
        rotation: Arc::clone(&setting.rotation),
        ways: fleet.ways().to_vec(),
    }
}

/// Returns the faults that kill, and those of connections; the others need the harness's own clients. There are none in reserved mode,
/// where they would leave operations with unknown outcomes, which only a person can resolve.
fn schedule(plan: &Plan, mode: Mode) -> Vec<crate::schedule::Due> {
    let mut schedule = plan.schedule(mode);
    schedule.retain(|due| {
        mode == Mode::Transactional
            && matches!(
                due.fault,
                Planned::Server(Order::Kill { .. } | Order::DieAt { .. })
                    | Planned::DatabaseKill { .. }
                    | Planned::Failover { .. }
                    | Planned::Cut { .. }
            )
    });
    schedule
}

/// The directory of the clients' journals, removed when dropped.
#[derive(Debug)]
struct Directory(std::path::PathBuf);

impl Directory {
    fn new() -> Result<Self, Error> {
        let path = env::temp_dir().join(format!("chaos-clients-{}", Uuid::new_v4().simple()));
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Fails if it was removed already.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
