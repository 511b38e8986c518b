//! Carries out the faults at their times.

use std::{ops::Range, time::Duration};

use tokio::{
    sync::{mpsc, watch},
    task::{JoinHandle, JoinSet},
    time,
};

use super::{bouncer, flood, full_pool::FullPool, hog, outage, slow_outbox, stage::Stage};
use crate::{
    error::Error,
    schedule::{Break, Due, Planned, Slowness, Stall},
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

/// A fault that takes all or part of the database from the servers, or many calls. Only one happens at a time.
#[derive(Clone, Debug)]
pub(super) enum Outage {
    Bouncer { how: Break, hold: Duration },
    Crash { down: Duration },
    FullPool { hold: Duration },
    Hog { operations: Range<u32> },
    Silence { slot: usize, hold: Duration },
    SlowOutbox { how: Slowness, hold: Duration },
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
            Planned::Flood { operations } => {
                flood::happen(&stage, operations).await;
                continue;
            }
            Planned::Server(order) => {
                stage.orders.add(order);
                continue;
            }
            Planned::Bouncer { how, hold } => Outage::Bouncer { how, hold },
            Planned::DatabaseKill { down } => Outage::Crash { down },
            Planned::FullPool { hold } => Outage::FullPool { hold },
            Planned::Hog { operations } => Outage::Hog { operations },
            Planned::Silence { slot, hold } => Outage::Silence { slot, hold },
            Planned::SlowOutbox { how, hold } => Outage::SlowOutbox { how, hold },
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
            Outage::Bouncer { how, hold } => bouncer::break_connections(&stage, how, hold).await?,
            Outage::Crash { down } => outage::crash(&stage, down).await?,
            Outage::FullPool { hold } => full_pool.happen(hold).await,
            Outage::Hog { operations } => hog::happen(&stage, operations).await,
            Outage::Silence { slot, hold } => outage::silence(&stage, slot, hold).await,
            Outage::SlowOutbox { how, hold } => slow_outbox::happen(&stage, how, hold).await?,
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
