//! Carries out the faults at their times.

use std::{ops::Range, time::Duration};

use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
    time,
};

use super::{batch, bouncer, flood, full_pool::FullPool, hang, hog, outage, owner, slow_outbox, stage::Stage};
use crate::{
    error::Error,
    schedule::{Break, Due, Planned, Slowness, Stall, Trouble},
    topology::{Failover, RedisFault},
};

/// The time that the faults may take that are due when the clients are done.
const LAST: Duration = Duration::from_secs(240);

/// The interval between two counts of the waiting faults.
const COUNT: Duration = Duration::from_millis(20);

/// Begins faults at their times. Begins no more when dropped.
#[derive(Debug)]
pub(crate) struct Director {
    counting: JoinHandle<()>,
    /// Returns the sender: as long as it is there, the task for outages goes on, and the waiting ones are counted.
    directing: JoinHandle<mpsc::Sender<Outage>>,
    /// The reason why no more faults can be made.
    failure: watch::Receiver<Option<String>>,
    outages: JoinHandle<()>,
}

/// A fault that takes all or part of the database from the servers, or many calls. Only one happens at a time.
#[derive(Clone, Debug)]
pub(super) enum Outage {
    Batch { how: Trouble, operations: Range<u32> },
    Bouncer { how: Break, hold: Duration },
    Crash { down: Duration },
    Failover { how: Failover },
    FullPool { hold: Duration },
    Hang { hold: Duration },
    Hog { operations: Range<u32> },
    Owner { hold: Duration },
    Redis { slot: u16, how: RedisFault },
    Silence { slot: usize, hold: Duration, arrives: bool },
    SlowOutbox { how: Slowness, hold: Duration },
    Stall { slot: usize, stall: Stall },
}

impl Director {
    pub(crate) fn start(stage: Stage, schedule: Vec<Due>) -> Self {
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
    ///
    /// # Errors
    ///
    /// The database does not come back.
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

/// Begins each fault when it is due. Returns the sender.
async fn direct(stage: Stage, schedule: Vec<Due>, outages: mpsc::Sender<Outage>) -> mpsc::Sender<Outage> {
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
            Planned::Mover { how, at_switch } => {
                if let Some(its) = &stage.moving {
                    its.disturb(how, at_switch);
                }
                continue;
            }
            Planned::Server(order) => {
                stage.orders.add(order);
                continue;
            }
            // Not after the other outages: the clients may have nothing left to commit then.
            Planned::BouncerCut { moment } => {
                bouncer::cut_at_commit(&stage, moment);
                continue;
            }
            Planned::Batch { how, operations } => Outage::Batch { how, operations },
            Planned::Bouncer { how, hold } => Outage::Bouncer { how, hold },
            Planned::DatabaseKill { down } => Outage::Crash { down },
            Planned::Failover { how } => Outage::Failover { how },
            Planned::FullPool { hold } => Outage::FullPool { hold },
            Planned::Hang { hold } => Outage::Hang { hold },
            Planned::Hog { operations } => Outage::Hog { operations },
            Planned::Owner { hold } => Outage::Owner { hold },
            Planned::Redis { slot, how } => Outage::Redis { slot, how },
            Planned::Silence { slot, hold, arrives } => Outage::Silence { slot, hold, arrives },
            Planned::SlowOutbox { how, hold } => Outage::SlowOutbox { how, hold },
            Planned::Stall { slot, stall } => Outage::Stall { slot, stall },
        };
        // Does not wait: the channel has room for all faults.
        let _ = outages.send(outage).await;
    }
    outages
}

/// Carries out one outage after the other, until all are done.
async fn carry_out(stage: Stage, mut queue: mpsc::Receiver<Outage>) -> Result<(), Error> {
    let full_pool = FullPool::new(&stage);
    while let Some(outage) = queue.recv().await {
        // They have a connection of their own all the time. A primary that has hung may replace its successor once more when it wakes up.
        if matches!(outage, Outage::Batch { .. } | Outage::SlowOutbox { .. }) {
            stage.database.is_whole().await?;
        }
        match outage {
            Outage::Batch { how, operations } => batch::happen(&stage, how, operations).await?,
            Outage::Bouncer { how, hold } => bouncer::break_connections(&stage, how, hold).await?,
            Outage::Crash { down } => outage::crash(&stage, down).await?,
            Outage::Failover { how } => outage::fail_over(&stage, how).await?,
            Outage::FullPool { hold } => full_pool.happen(hold).await,
            Outage::Hang { hold } => hang::happen(&stage, hold).await?,
            Outage::Hog { operations } => hog::happen(&stage, operations).await,
            Outage::Owner { hold } => owner::happen(&stage, hold).await?,
            Outage::Redis { slot, how } => outage::break_redis(&stage, slot, how).await?,
            Outage::Silence { slot, hold, arrives } => outage::silence(&stage, slot, hold, arrives).await,
            Outage::SlowOutbox { how, hold } => slow_outbox::happen(&stage, how, hold).await?,
            Outage::Stall { slot, stall } => outage::stall(&stage, slot, stall).await,
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
