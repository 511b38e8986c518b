//! Carries out the faults at their times.

use std::time::Duration;

use tokio::{
    sync::{mpsc, watch},
    task::{JoinHandle, JoinSet},
    time,
};

use super::{full_pool::FullPool, outage, stage::Stage};
use crate::{
    error::Error,
    schedule::{Due, Planned, Stall},
};

/// The time that the last faults may take.
const LAST: Duration = Duration::from_secs(60);

/// The interval between two counts of the waiting faults.
const COUNT: Duration = Duration::from_millis(20);

/// Begins faults at their times. Begins no more when dropped.
#[derive(Debug)]
pub(crate) struct Director {
    /// The reason why no more faults can be made.
    failure: watch::Receiver<Option<String>>,
    outages: JoinHandle<()>,
    tasks: JoinSet<()>,
}

/// A fault that takes all or part of the database from the servers. Only one happens at a time.
#[derive(Clone, Copy, Debug)]
pub(super) enum Outage {
    Crash { down: Duration },
    FullPool { hold: Duration },
    Stall { slot: usize, stall: Stall },
}

impl Director {
    pub(crate) fn start(stage: Stage, schedule: Vec<Due>) -> Self {
        let (outages, queue) = mpsc::channel(schedule.len().max(1));
        let mut tasks = JoinSet::new();
        tasks.spawn(keep_count(stage.clone(), outages.clone().downgrade()));
        tasks.spawn(direct(stage.clone(), schedule, outages));
        let (failed, failure) = watch::channel(None);
        let outages = tokio::spawn(async move {
            if let Err(error) = carry_out(stage, queue).await {
                failed.send_replace(Some(error.to_string()));
            }
        });
        Self { failure, outages, tasks }
    }

    /// Begins no new faults, and waits for the end of the one that is under way.
    ///
    /// # Errors
    ///
    /// The database does not come back.
    pub(crate) async fn finish(mut self) -> Result<(), Error> {
        self.tasks.shutdown().await;
        time::timeout(LAST, &mut self.outages).await.map_err(|_| format!("a fault did not end within {LAST:?}"))??;
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
        self.outages.abort();
    }
}

/// Begins each fault when it is due.
async fn direct(stage: Stage, schedule: Vec<Due>, outages: mpsc::Sender<Outage>) {
    for Due { at, fault } in schedule {
        stage.pace.reached(at).await;
        let outage = match fault {
            Planned::Cut { slot, cut } => {
                outage::cut_later(&stage, slot, cut);
                continue;
            }
            Planned::Server(order) => {
                stage.orders.add(order);
                continue;
            }
            Planned::DatabaseKill { down } => Outage::Crash { down },
            Planned::FullPool { hold } => Outage::FullPool { hold },
            Planned::Stall { slot, stall } => Outage::Stall { slot, stall },
        };
        // Does not wait: the channel has room for all faults.
        let _ = outages.send(outage).await;
    }
    // Keeps the sender: without it, the task for outages would end.
    std::future::pending().await
}

/// Carries out one outage after the other, until the senders are gone.
async fn carry_out(stage: Stage, mut queue: mpsc::Receiver<Outage>) -> Result<(), Error> {
    let full_pool = FullPool::new(&stage);
    while let Some(outage) = queue.recv().await {
        match outage {
            Outage::Crash { down } => outage::crash(&stage, down).await?,
            Outage::FullPool { hold } => full_pool.happen(hold).await,
            Outage::Stall { slot, stall } => outage::stall(&stage, slot, stall).await,
        }
        if queue.is_closed() {
            break;
        }
    }
    Ok(())
}

/// Updates the number of waiting faults for the clients.
async fn keep_count(stage: Stage, outages: mpsc::WeakSender<Outage>) {
    let mut looks = time::interval(COUNT);
    while let Some(outages) = outages.upgrade() {
        let outages = outages.max_capacity() - outages.capacity();
        stage.pace.set_waiting(stage.orders.waiting() + outages);
        looks.tick().await;
    }
}
