//! One run in one mode, from the first server to the verdict.

use std::{sync::Arc, time::Duration};

use tokio::{task::JoinSet, time};

use crate::{
    auditor::{Evidence, Rows, Tally, Verdict, judge},
    choice::Topology,
    client::{Calls, Workload},
    error::Error,
    faults::{Director, Stage},
    fleet::{Fleet, Setting},
    journal::{Entries, Journal},
    last::last_retries,
    mode::Mode,
    mover::Mover,
    pace::Pace,
    plan::Plan,
    progress::{Progress, standstill},
    sabotage::sabotage,
    topology::Database,
    witness::Witnesses,
};

/// The time that is waited beyond the lease until all reservations have ended.
const SLACK: Duration = Duration::from_secs(1);

/// The result of a run in one mode.
#[derive(Debug)]
pub(crate) struct Trial {
    pub(crate) mode: Mode,
    pub(crate) tally: Tally,
    /// How often the move to partitions was interrupted; `None` if there was none.
    pub(crate) interruptions: Option<u32>,
    /// The number of sealed responses in the end, if servers seal.
    pub(crate) sealed: Option<u64>,
    /// The duration of the operations, faults included.
    pub(crate) took: Duration,
    pub(crate) verdict: Verdict,
    /// The log from which the story of a violation is told.
    pub(crate) entries: Entries,
}

impl Trial {
    /// Carries out the plan in one mode, on a new database and with new servers, which are gone afterwards. Leaves
    /// nothing behind if it is dropped, either.
    pub(crate) async fn run(plan: &Plan, mode: Mode) -> Result<Self, Error> {
        Database::with(&plan.args, async |database| Self::run_on(plan, mode, database).await).await
    }

    async fn run_on(plan: &Plan, mode: Mode, database: &Arc<Database>) -> Result<Self, Error> {
        let journal = Arc::new(Journal::new());
        let (interruptions, took) = faults_and_work(plan, mode, database, &journal).await?;

        database.is_whole().await?;
        time::sleep(plan.args.lease + SLACK).await;
        sabotage(&plan.args.sabotage, &database.connect().await?, &journal, &plan.operations).await?;
        last_retries(plan, mode, database, &journal).await?;
        // A primary that has hung may have replaced its successor once more.
        database.is_whole().await?;
        let seals = plan.args.seal && plan.args.topology != Topology::RedisCluster;
        let rows = Rows::read(&database.connect().await?, seals).await?;

        let entries = std::mem::take(&mut *journal.entries());
        let evidence =
            Evidence { entries: &entries, operations: &plan.operations, rows: &rows, rules: plan.rules(mode) };
        let verdict = judge(&evidence);
        let (tally, sealed) = (Tally::new(&entries, mode), rows.sealed);
        Ok(Self { mode, tally, interruptions, sealed, took, verdict, entries })
    }
}

/// Runs the clients and the faults, then stops everything in order. Returns the interruptions of a move to partitions, and the duration.
async fn faults_and_work(
    plan: &Plan,
    mode: Mode,
    database: &Arc<Database>,
    journal: &Arc<Journal>,
) -> Result<(Option<u32>, Duration), Error> {
    let args = &plan.args;
    let setting = Setting::new(plan, mode, journal);
    let fleet = Fleet::start(setting.clone(), args.servers, database).await?;
    let pace = Arc::new(Pace::new(args));
    let begun = journal.now();
    let progress = Progress::start(mode, journal, args.operations);
    let urls = fleet.ways().iter().map(|way| database.urls_through(&way.addresses()));
    let urls = urls.map(|urls| urls.api.unwrap_or(urls.database));
    let witnesses = Witnesses::start(urls, database.question(), journal);
    let mover = args.partitions.filter(|_| args.moving);
    let mover = mover.map(|partitions| Mover::start(database, journal, &pace, partitions, args.operations));
    let mut stage = Stage::new(plan, database, &setting, &pace, &fleet);
    stage.moving = mover.as_ref().map(|mover| Arc::clone(mover.its()));
    let director = Director::start(stage, plan.schedule(mode));
    let workload = Workload {
        calls: Calls { journal: Arc::clone(journal), rotation: setting.rotation },
        operations: Arc::clone(&plan.operations),
        pace,
        seed: plan.seed,
    };
    let mut clients: JoinSet<()> = (0..args.clients).map(|number| workload.clone().client(number)).collect();
    let all = async {
        while let Some(ended) = clients.join_next().await {
            ended?;
        }
        Ok::<_, Error>(())
    };
    tokio::select! {
        done = all => done?,
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
    Ok((interruptions, took))
}
