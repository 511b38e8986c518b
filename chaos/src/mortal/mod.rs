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

use std::{env, fs, path::PathBuf, sync::Arc};

use tokio::task::JoinSet;
use uuid::Uuid;

pub use self::call::{CallArgs, call};
use self::{
    audit::Audit,
    client::{Client, Ends},
    front::Front,
};
use crate::{
    auditor::Rows,
    error::Error,
    fault::FaultKind,
    faults::{Director, Stage},
    fleet::{Fleet, Setting},
    journal::Journal,
    mode::Mode,
    pace::Pace,
    plan::Plan,
    progress::{Progress, standstill},
    schedule::PlannedFault,
    seed::Subject,
    topology::Database,
};

/// Carries out the plan with clients that die, and counts what is left.
pub(crate) async fn run(plan: &Plan, mode: Mode) -> Result<Audit, Error> {
    Database::with(&plan.args, async |database| run_on(plan, mode, database).await).await
}

async fn run_on(plan: &Plan, mode: Mode, database: &Arc<Database>) -> Result<Audit, Error> {
    let (args, journal) = (&plan.args, Arc::new(Journal::new()));
    let setting = Setting::new(plan, mode, &journal);
    let fleet = Fleet::start(setting.clone(), args.servers, database).await?;
    let front = Front::start(Arc::clone(&setting.rotation), plan.seed).await?;
    let begun = journal.now();
    let progress = Progress::start(mode, &journal, args.operations);
    let pace = Arc::new(Pace::new(args));
    let stage = Stage::new(plan, mode, database, &setting, &pace, &fleet);
    let director = Director::start(stage, schedule(plan, mode));
    let directory = Directory::new()?;
    let mut clients = JoinSet::new();
    for number in 0..args.clients {
        let file = directory.0.join(format!("{number}.journal"));
        let rng = plan.seed.rng(Subject::Client(number));
        let client = Client::new(number, file, front.address, &pace, &journal, rng, args.without);
        clients.spawn(client.run());
    }
    let mut ends = Ends::default();
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

/// Returns the faults that kill, and those of connections; the others need the harness's own clients. There are none in reserved mode,
/// where they would leave operations with unknown outcomes, which only a person can resolve.
fn schedule(plan: &Plan, mode: Mode) -> Vec<PlannedFault> {
    let mut schedule = plan.schedule(mode);
    schedule.retain(|fault| {
        let kills = matches!(
            fault.kind,
            FaultKind::ServerKilled | FaultKind::ServerKilledAt(_) | FaultKind::DatabaseKilled | FaultKind::Primary(_)
        );
        mode == Mode::Transactional && (kills || fault.cut().is_some())
    });
    schedule
}

/// The directory of the clients' journals, removed when dropped.
#[derive(Debug)]
struct Directory(PathBuf);

impl Directory {
    fn new() -> Result<Self, Error> {
        let path = env::temp_dir().join(format!("chaos-clients-{}", Uuid::new_v4().simple()));
        fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Fails if it was removed already.
        let _ = fs::remove_dir_all(&self.0);
    }
}
