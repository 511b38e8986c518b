//! One run in one mode, from the first server to the verdict.

use std::{sync::Arc, time::Duration};

use tokio::{task::JoinSet, time};

use crate::{
    auditor::{Evidence, Rows, Tally, Verdict, judge},
    client::{Calls, Workload},
    error::Error,
    faults::{Director, Stage},
    fleet::{Fleet, Orders, Rotation, Setting},
    journal::{Entries, Journal},
    last::Last,
    mode::Mode,
    mover::Mover,
    pace::Pace,
    plan::Plan,
    progress::Progress,
    sabotage::sabotage,
    topology::Database,
    witness::Witnesses,
};

/// The longest time in which no operation finishes: no single operation may take longer, so all of them together cannot
/// stand still for longer.
const STANDSTILL: Duration = Duration::from_secs(120);

/// The interval between two checks for progress.
const LOOK: Duration = Duration::from_millis(250);

/// The time that is waited beyond the lease until all reservations have ended.
const SLACK: Duration = Duration::from_secs(1);

/// The result of a run in one mode.
#[derive(Debug)]
pub(crate) struct Trial {
    pub(crate) mode: Mode,
    pub(crate) tally: Tally,
    /// How often the move to partitions was interrupted; `None` if there was none.
    pub(crate) interruptions: Option<u32>,
    /// The duration of the operations, faults included.
    pub(crate) took: Duration,
    pub(crate) verdict: Verdict,
    /// The log from which the story of a violation is told.
    pub(crate) entries: Entries,
}

impl Trial {
    /// Carries out the plan in one mode, on a new database and with new servers, which are gone afterwards. Leaves
    /// nothing behind if it is dropped, either.
    ///
    /// # Errors
    ///
    /// The run could not be carried out; this does not mean that a promise was broken.
    pub(crate) async fn run(plan: &Plan, mode: Mode) -> Result<Self, Error> {
        let database = Arc::new(Database::start(plan).await?);
        let ended = tokio::select! {
            ended = Self::run_on(plan, mode, &database) => ended,
            error = database.ended() => Err(error),
        };
        if let Some(database) = Arc::into_inner(database) {
            database.stop().await;
        }
        ended
    }

    async fn run_on(plan: &Plan, mode: Mode, database: &Arc<Database>) -> Result<Self, Error> {
        let journal = Arc::new(Journal::new());
        let Worked { interruptions, took } = faults_and_work(plan, mode, database, &journal).await?;

        database.is_whole().await?;
        time::sleep(plan.lease + SLACK).await;
        let acknowledged = journal.entries().acknowledged();
        sabotage(&plan.sabotage, &database.connect().await?, &journal, &acknowledged, &plan.operations).await?;
        Last { database, journal: &journal, mode, plan }.retries().await?;
        // A primary that has hung may have replaced its successor once more.
        database.is_whole().await?;
        let rows = Rows::read(&database.connect().await?).await?;

        let entries = std::mem::take(&mut *journal.entries());
        let evidence =
            Evidence { entries: &entries, operations: &plan.operations, rows: &rows, rules: plan.rules(mode) };
        let verdict = judge(&evidence);
        Ok(Self { mode, tally: Tally::new(&entries, mode), interruptions, took, verdict, entries })
    }
}

/// The end of the operations.
struct Worked {
    interruptions: Option<u32>,
    took: Duration,
}

/// Runs the clients and the faults, then stops everything in order.
async fn faults_and_work(
    plan: &Plan,
    mode: Mode,
    database: &Arc<Database>,
    journal: &Arc<Journal>,
) -> Result<Worked, Error> {
    let setting = Setting {
        arguments: plan.server(mode),
        lease: plan.lease,
        journal: Arc::clone(journal),
        orders: Arc::new(Orders::default()),
        rotation: Arc::new(Rotation::default()),
        verbose: plan.verbose,
    };
    let fleet = Fleet::start(setting.clone(), plan.servers, database).await?;
    let pace = Arc::new(Pace::new(plan.of_clients, plan.topology));
    let begun = journal.now();
    let progress = Progress::start(mode, Arc::clone(journal), plan.of_clients);
    let urls = fleet.ways().iter().map(|way| database.urls_through(&way.addresses()));
    let urls = urls.map(|urls| urls.api.unwrap_or(urls.database));
    let witnesses = Witnesses::start(urls, database.question(), journal);
    let mover = plan.partitions.filter(|_| plan.moving);
    let mover = mover.map(|partitions| Mover::start(database, journal, &pace, partitions, plan.of_clients));
    let stage = Stage {
        behind_bouncer: database.behind_bouncer().cloned(),
        database: Arc::clone(database),
        journal: Arc::clone(journal),
        mode,
        moving: mover.as_ref().map(|mover| Arc::clone(mover.its())),
        operations: Arc::clone(&plan.operations),
        orders: Arc::clone(&setting.orders),
        pace: Arc::clone(&pace),
        rotation: Arc::clone(&setting.rotation),
        ways: fleet.ways().to_vec(),
    };
    let director = Director::start(stage, plan.schedule(mode));
    let workload = Workload {
        calls: Calls { journal: Arc::clone(journal), rotation: setting.rotation },
        journal: Arc::clone(journal),
        operations: Arc::clone(&plan.operations),
        pace,
        seed: plan.seed,
    };
    let mut clients = JoinSet::new();
    for number in 0..plan.clients {
        clients.spawn(workload.clone().client(number));
    }
    tokio::select! {
        done = all(&mut clients) => done?,
        error = director.failed() => return Err(error),
        error = standstill(journal) => return Err(error),
    }
    director.finish().await?;
    let interruptions = match mover {
        Some(mover) => Some(mover.finish().await?),
        None => None,
    };
    let took = journal.now() - begun;
    fleet.calm().await?;
    fleet.stop().await;
    drop(witnesses);
    drop(progress);
    Ok(Worked { interruptions, took })
}

/// Waits for all clients.
async fn all(clients: &mut JoinSet<()>) -> Result<(), Error> {
    while let Some(ended) = clients.join_next().await {
        ended?;
    }
    Ok(())
}

/// Returns when no operation has finished for [`STANDSTILL`].
pub(crate) async fn standstill(journal: &Journal) -> Error {
    let (mut done, mut since) = (0, time::Instant::now());
    while since.elapsed() < STANDSTILL {
        time::sleep(LOOK).await;
        let now_done = journal.entries().done;
        if now_done != done {
            (done, since) = (now_done, time::Instant::now());
        }
    }
    format!("no operation finished within {STANDSTILL:?}, after {done} finished ones").into()
}
