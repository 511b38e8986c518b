//! The server processes, which are killed, stopped and started again, and the proxies and load balancing around them.

mod backend;
mod orders;
mod process;
mod rotation;
mod setting;
mod slot;

use std::{sync::Arc, time::Duration};

use tcp_proxy::Proxy;
use tokio::{sync::watch, task::JoinSet, time};
use tokio_util::sync::CancellationToken;

use self::slot::Slot;
pub(crate) use self::{backend::Backend, orders::Orders, process::Process, rotation::Rotation, setting::Setting};
use crate::{
    error::Error,
    topology::{Database, Way},
};

/// The time in which servers must start when no fault keeps them from it.
const START: Duration = Duration::from_secs(60);

/// The number of starts that may still fail: some began when a fault was still under way.
const STARTS: usize = 10;

/// The interval between two checks of the starts.
const LOOK: Duration = Duration::from_millis(20);

/// The time that the servers may take to stop when they are asked to.
const STOP: Duration = Duration::from_secs(20);

/// Keeps a number of servers running. Kills all of them when dropped.
#[derive(Debug)]
pub(crate) struct Fleet {
    /// Whether the faults are over.
    calm: watch::Sender<bool>,
    setting: Setting,
    slots: JoinSet<()>,
    stopping: CancellationToken,
    ways: Vec<Arc<Way>>,
}

impl Fleet {
    /// Starts the servers, each with a way of its own, and waits until all of them serve. The first starts before the others, so
    /// that only one creates the tables.
    pub(crate) async fn start(setting: Setting, servers: u32, database: &Database) -> Result<Self, Error> {
        let mut fleet = Self {
            calm: watch::Sender::new(false),
            setting,
            slots: JoinSet::new(),
            stopping: CancellationToken::new(),
            ways: Vec::new(),
        };
        for slot in 0..servers as usize {
            let way = Arc::new(Way::start(&database.entrances())?);
            fleet.ways.push(Arc::clone(&way));
            let slot = Slot {
                calm: fleet.calm.subscribe(),
                number: slot,
                setting: fleet.setting.clone(),
                stopping: fleet.stopping.clone(),
                urls: database.urls_through(&way.addresses()),
                way,
            };
            fleet.slots.spawn(slot.run());
            fleet.serve().await?;
        }
        Ok(fleet)
    }

    /// The way of each server to the database.
    pub(crate) fn ways(&self) -> &[Arc<Way>] {
        &self.ways
    }

    /// Ends all faults of servers, and waits until all of them serve.
    pub(crate) async fn calm(&self) -> Result<(), Error> {
        self.setting.orders.close();
        for way in &self.ways {
            way.each(Proxy::forget_cuts);
            way.each(Proxy::mend);
        }
        self.calm.send_replace(true);
        self.serve().await
    }

    /// Waits until all servers serve. No fault keeps them from it.
    async fn serve(&self) -> Result<(), Error> {
        let failed = || self.setting.journal.entries().failed_starts;
        let before = failed();
        let failing = async {
            while failed() < before + STARTS {
                time::sleep(LOOK).await;
            }
        };
        tokio::select! {
            () = self.setting.rotation.filled(self.ways.len()) => Ok(()),
            () = failing => Err(format!("the servers did not start:\n{}", self.log()).into()),
            () = time::sleep(START) => Err(format!("the servers did not start within {START:?}:\n{}", self.log()).into()),
        }
    }

    /// Stops the servers as an operator does, and kills those that take too long.
    pub(crate) async fn stop(mut self) {
        self.stopping.cancel();
        let stopping = async { while self.slots.join_next().await.is_some() {} };
        // The remaining servers are killed when they are dropped.
        let _ = time::timeout(STOP, stopping).await;
    }

    /// The last lines of the servers' logs.
    fn log(&self) -> String {
        let entries = self.setting.journal.entries();
        let last = entries.lines.len().saturating_sub(20);
        entries.lines.iter().skip(last).map(|line| format!("  server {}: {}\n", line.server, line.text)).collect()
    }
}
