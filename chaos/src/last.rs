//! The last retry of every operation.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{task::JoinSet, time};

use crate::{
    error::Error,
    fleet::{Backend, Orders, Process, Rotation, Setting},
    journal::{Journal, Purpose, ServerId},
    mode::Mode,
    operation::{Operation, Variant},
    plan::Plan,
    topology::Database,
};

/// The number of attempts of a last retry, as long as the answer is not final.
const ATTEMPTS: usize = 5;

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(200);

/// The time that an attempt waits for its answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The time that the server may take to stop.
const STOP: Duration = Duration::from_secs(10);

/// The last retry of every operation, after all faults. It goes to a new server that has seen no fault and has a direct
/// connection to the database.
#[derive(Debug)]
pub(crate) struct Last<'a> {
    pub(crate) database: &'a Database,
    pub(crate) journal: &'a Arc<Journal>,
    pub(crate) mode: Mode,
    pub(crate) plan: &'a Plan,
}

impl Last<'_> {
    /// Makes all last retries.
    ///
    /// # Errors
    ///
    /// The server does not start.
    pub(crate) async fn retries(&self) -> Result<(), Error> {
        let setting = Setting {
            arguments: self.plan.server(self.mode),
            lease: self.plan.lease,
            journal: Arc::clone(self.journal),
            orders: Arc::new(Orders::default()),
            rotation: Arc::new(Rotation::default()),
            verbose: self.plan.verbose,
        };
        let urls = self.database.direct_urls();
        // The slot after all others.
        let server = ServerId { slot: self.plan.servers as usize, life: 1 };
        let (process, ready) = Process::start(server, &setting, &urls).await?;
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

/// Retries operations until there are no more; several of these tasks share them.
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
