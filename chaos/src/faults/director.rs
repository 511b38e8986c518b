//! Carries out the faults at their times.

use std::time::Duration;

use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
    time,
};

use super::{calls::with_calls, outage, stage::Stage};
use crate::{error::Error, fault::FaultKind, journal::Whom, schedule::PlannedFault};

/// The time that the faults may take that are due when the clients are done.
const LAST: Duration = Duration::from_secs(240);

/// The interval between two counts of the waiting faults.
const COUNT: Duration = Duration::from_millis(20);

/// The number of slots of a Redis Cluster.
const SLOTS: u32 = 16384;

/// Begins faults at their times. Begins no more when dropped.
#[derive(Debug)]
pub(crate) struct Director {
    counting: JoinHandle<()>,
    /// Returns the sender: as long as it is there, the task for outages goes on, and the waiting ones are counted.
    directing: JoinHandle<mpsc::Sender<PlannedFault>>,
    /// The reason why no more faults can be made.
    failure: watch::Receiver<Option<String>>,
    outages: JoinHandle<()>,
}

impl Director {
    pub(crate) fn start(stage: Stage, schedule: Vec<PlannedFault>) -> Self {
        let (outages, queue) = mpsc::channel(schedule.len().max(1));
        let counting = tokio::spawn(keep_count(stage.clone(), outages.downgrade()));
        let directing = tokio::spawn(direct(stage.clone(), schedule, outages));
        let (failed, failure) = watch::channel(None);
        let outages = tokio::spawn(async move {
            if let Err(error) = carry_out(stage, queue).await {
                failed.send_replace(Some(error.to_string()));
            }
        });
        Self { counting, directing, failure, outages }
    }

    /// Waits for the end of all faults. All operations must have begun, so that all faults are due.
    pub(crate) async fn finish(mut self) -> Result<(), Error> {
        let all = async {
            drop((&mut self.directing).await?);
            (&mut self.outages).await
        };
        time::timeout(LAST, all).await.map_err(|_| format!("the faults did not end within {LAST:?}"))??;
        match &*self.failure.borrow() {
            Some(why) => Err(why.clone().into()),
            None => Ok(()),
        }
    }

    /// Returns the reason if the database does not come back; otherwise never returns.
    pub(crate) async fn failed(&self) -> Error {
        let mut failure = self.failure.clone();
        match failure.wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or_default().into(),
            // The task has ended without an error.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for Director {
    fn drop(&mut self) {
        self.counting.abort();
        self.directing.abort();
        self.outages.abort();
    }
}

/// Begins each fault when it is due. Those that take all or part of the database from the servers are sent on, as only one of them
/// happens at a time. Returns the sender.
async fn direct(
    stage: Stage,
    schedule: Vec<PlannedFault>,
    outages: mpsc::Sender<PlannedFault>,
) -> mpsc::Sender<PlannedFault> {
    for fault in schedule {
        stage.pace.reached(fault.at).await;
        match (fault.kind, fault.cut()) {
            (kind, Some(cut)) => outage::cut_later(&stage, fault.slot, kind, cut),
            (FaultKind::Mover(how), _) => {
                if let Some(its) = &stage.moving {
                    its.disturb(how, fault.draw.is_multiple_of(2));
                }
            }
            (FaultKind::ServerKilled | FaultKind::ServerKilledAt(_) | FaultKind::ServerPausedAt(_), _) => {
                stage.orders.add(fault);
            }
            // Does not wait: the channel has room for all faults.
            _ => drop(outages.send(fault).await),
        }
    }
    outages
}

/// Carries out one outage after the other, until all are done.
async fn carry_out(stage: Stage, mut queue: mpsc::Receiver<PlannedFault>) -> Result<(), Error> {
    while let Some(fault) = queue.recv().await {
        if let (FaultKind::Primary(_), Some(patroni)) = (fault.kind, stage.database.patroni()) {
            patroni.can_fail_over().await?;
        }
        let begun = stage.journal.now();
        if let Some(whom) = happen(&stage, &fault).await? {
            stage.journal.fault(fault.kind, whom, begun);
        }
    }
    Ok(())
}

/// Carries out an outage. Returns whom it affected; `None` if it did not come about, or has noted itself.
async fn happen(stage: &Stage, fault: &PlannedFault) -> Result<Option<Whom>, Error> {
    let hold = fault.hold;
    match fault.kind {
        FaultKind::Bouncer(how) => return outage::behind_bouncer(stage, how, hold).await,
        FaultKind::DatabaseKilled => {
            let Some(single) = stage.database.single() else { return Ok(None) };
            with_calls(stage, single.crash(hold)).await?;
        }
        FaultKind::Primary(how) => {
            let Some(patroni) = stage.database.patroni() else { return Ok(None) };
            with_calls(stage, patroni.fail_over(how)).await?;
        }
        FaultKind::Redis(how) => {
            let Some(redis) = stage.database.redis() else { return Ok(None) };
            let slot = u16::try_from(fault.draw % SLOTS)?;
            let breaking = async {
                redis.break_primary(slot, how).await?;
                redis.is_whole().await
            };
            with_calls(stage, breaking).await?;
        }
        _ => return Ok(outage::on_way(stage, fault).await),
    }
    Ok(Some(Whom::All))
}

/// Updates the number of waiting faults for the clients.
async fn keep_count(stage: Stage, outages: mpsc::WeakSender<PlannedFault>) {
    let mut looks = time::interval(COUNT);
    while let Some(outages) = outages.upgrade() {
        let outages = outages.max_capacity() - outages.capacity();
        stage.pace.set_waiting(stage.orders.waiting() + outages);
        looks.tick().await;
    }
}
