//! The servers: processes that are killed, stopped and started again, and what stands in front of them.

mod backend;
mod orders;
mod process;
mod rotation;
mod slot;

use std::{sync::Arc, time::Duration};

use tcp_proxy::Proxy;
use tokio::{sync::watch, task::JoinSet, time};
use tokio_util::sync::CancellationToken;

use self::slot::Slot;
pub(crate) use self::{backend::Backend, orders::Orders, process::Process, rotation::Rotation};
use crate::{database::Database, error::Error, journal::Journal};

/// How long servers may take to serve while nothing keeps them from it.
const START: Duration = Duration::from_secs(60);

/// And how many starts of theirs may fail: some were under way when something still did.
const STARTS: usize = 10;

/// How often these are counted.
const LOOK: Duration = Duration::from_millis(20);

/// How long the servers may take to stop when they are asked to.
const STOP: Duration = Duration::from_secs(20);

/// What servers are told and where they are.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// Of the sample.
    pub(crate) flags: Vec<String>,
    pub(crate) lease: Duration,
    pub(crate) journal: Arc<Journal>,
    pub(crate) orders: Arc<Orders>,
    pub(crate) rotation: Arc<Rotation>,
    /// Show what the servers log.
    pub(crate) verbose: bool,
}

/// Keeps a number of servers running. Dropped, all of them are killed.
#[derive(Debug)]
pub(crate) struct Fleet {
    /// Whether no more faults are wanted.
    calm: watch::Sender<bool>,
    proxies: Vec<Arc<Proxy>>,
    setting: Setting,
    slots: JoinSet<()>,
    stopping: CancellationToken,
}

impl Fleet {
    /// Starts them, each behind a proxy of its own, and waits until all of them serve: the first alone, so that only
    /// one makes the tables.
    ///
    /// # Errors
    ///
    /// The first does not come up, with what it logged; or there are no ports.
    pub(crate) async fn start(setting: Setting, servers: u32, database: &Database) -> Result<Self, Error> {
        let mut fleet = Self {
            calm: watch::Sender::new(false),
            proxies: Vec::new(),
            setting,
            slots: JoinSet::new(),
            stopping: CancellationToken::new(),
        };
        for slot in 0..servers as usize {
            let proxy = Arc::new(Proxy::start(database.address())?);
            fleet.proxies.push(Arc::clone(&proxy));
            let slot = Slot {
                calm: fleet.calm.subscribe(),
                database_url: database.url_through(proxy.address()),
                number: slot,
                proxy,
                setting: fleet.setting.clone(),
                stopping: fleet.stopping.clone(),
            };
            fleet.slots.spawn(slot.run());
            fleet.serve().await?;
        }
        Ok(fleet)
    }

    /// The proxy of each server.
    pub(crate) fn proxies(&self) -> &[Arc<Proxy>] {
        &self.proxies
    }

    /// Lets nothing more happen to the servers, and waits until all of them serve.
    ///
    /// # Errors
    ///
    /// They do not.
    pub(crate) async fn calm(&self) -> Result<(), Error> {
        self.setting.orders.close();
        self.proxies.iter().for_each(|proxy| {
            proxy.forget_cuts();
            proxy.mend();
        });
        self.calm.send_replace(true);
        self.serve().await
    }

    /// Waits until all servers serve. Nothing keeps them from it.
    async fn serve(&self) -> Result<(), Error> {
        let failed = || self.setting.journal.entries().failed_starts;
        let before = failed();
        let failing = async {
            while failed() < before + STARTS {
                time::sleep(LOOK).await;
            }
        };
        tokio::select! {
            () = self.setting.rotation.filled(self.proxies.len()) => Ok(()),
            () = failing => Err(format!("the servers do not come up:\n{}", self.log()).into()),
            () = time::sleep(START) => Err(format!("the servers do not come up in {START:?}:\n{}", self.log()).into()),
        }
    }

    /// Stops them as an operator does, and kills those that take too long.
    pub(crate) async fn stop(mut self) {
        self.stopping.cancel();
        let stopping = async { while self.slots.join_next().await.is_some() {} };
        // What is left is killed as it is dropped.
        let _ = time::timeout(STOP, stopping).await;
    }

    /// The last lines that servers have logged.
    fn log(&self) -> String {
        let entries = self.setting.journal.entries();
        let last = entries.lines.len().saturating_sub(20);
        entries.lines.iter().skip(last).map(|line| format!("  server {}: {}\n", line.server, line.text)).collect()
    }
}
