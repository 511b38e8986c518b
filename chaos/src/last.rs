use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{task::JoinSet, time};

use crate::{
    args::Mode,
    database::Database,
    error::Error,
    fleet::{Backend, Orders, Process, Rotation, Setting},
    journal::{Journal, Purpose, ServerId},
    operation::{Operation, Variant},
    plan::Plan,
};

/// How often a last retry is tried, where the answer is not for good.
const ATTEMPTS: usize = 5;

/// Between two of these.
const PAUSE: Duration = Duration::from_millis(200);

/// How long one waits for its answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long the server may take to stop.
const STOP: Duration = Duration::from_secs(10);

/// The last retry of every operation, when there are no faults any more and no server that has seen one: a new server,
/// with nothing between it and the database.
#[derive(Debug)]
pub(crate) struct Last<'a> {
    pub(crate) database: &'a Database,
    pub(crate) journal: &'a Arc<Journal>,
    pub(crate) mode: Mode,
    pub(crate) plan: &'a Plan,
}

impl Last<'_> {
    /// Makes them all.
    ///
    /// # Errors
    ///
    /// The server does not come up.
    pub(crate) async fn retries(&self) -> Result<(), Error> {
        let setting = Setting {
            flags: self.plan.flags(self.mode),
            lease: self.plan.lease,
            journal: Arc::clone(self.journal),
            orders: Arc::new(Orders::default()),
            rotation: Arc::new(Rotation::default()),
            verbose: self.plan.verbose,
        };
        // In the place after all others.
        let server = ServerId { slot: self.plan.servers as usize, life: 1 };
        let (process, ready) = Process::start(server, &setting, self.database.url()).await?;
        let backend = Arc::new(Backend::new(server, &ready)?);

        let next = Arc::new(AtomicUsize::new(0));
        let mut clients = JoinSet::new();
        for _ in 0..self.plan.clients {
            clients.spawn(retry_all(
                Arc::clone(&next),
                Arc::clone(&self.plan.operations),
                Arc::clone(&backend),
                Arc::clone(self.journal),
            ));
        }
        while let Some(ended) = clients.join_next().await {
            ended?;
        }
        process.stop(STOP).await;
        Ok(())
    }
}

/// One of several that share the operations.
async fn retry_all(next: Arc<AtomicUsize>, operations: Arc<[Operation]>, backend: Arc<Backend>, journal: Arc<Journal>) {
    while let Some(operation) = operations.get(next.fetch_add(1, Ordering::Relaxed)) {
        for _ in 0..ATTEMPTS {
            let running = journal.begin(operation.number, Variant::Asked, Purpose::Final, backend.server());
            let outcome = backend.call(operation, Variant::Asked, PATIENCE).await;
            let is_final = outcome.is_final();
            journal.end(running, outcome);
            if is_final {
                break;
            }
            time::sleep(PAUSE).await;
        }
    }
}
