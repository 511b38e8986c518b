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
    fleet::{Backend, Process, Setting},
    journal::{Journal, Purpose, ServerId},
    mode::Mode,
    operation::Variant,
    plan::Plan,
    topology::Database,
};

/// The number of attempts of a last retry, as long as the answer is not final.
const ATTEMPTS: usize = 5;

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(200);

/// The time that an attempt waits for its answer, and that the server may take to stop.
const PATIENCE: Duration = Duration::from_secs(10);

/// Makes the last retry of every operation, after all faults. It goes to a new server that has seen no fault and has a direct
/// connection to the database.
pub(crate) async fn last_retries(
    plan: &Plan,
    mode: Mode,
    database: &Database,
    journal: &Arc<Journal>,
) -> Result<(), Error> {
    // The slot after all others.
    let server = ServerId { slot: plan.args.servers as usize, life: 1 };
    let setting = Setting::new(plan, mode, journal);
    let (process, announcement) = Process::start(server, &setting, &database.direct_urls()).await?;
    let backend = Arc::new(Backend::new(server, &announcement)?);
    let next = Arc::new(AtomicUsize::new(0));
    let mut clients = JoinSet::new();
    for _ in 0..plan.args.clients {
        let (next, operations) = (Arc::clone(&next), Arc::clone(&plan.operations));
        let (backend, journal) = (Arc::clone(&backend), Arc::clone(journal));
        clients.spawn(async move {
            while let Some(operation) = operations.get(next.fetch_add(1, Ordering::Relaxed)) {
                for _ in 0..ATTEMPTS {
                    let purpose = (Variant::Asked, Purpose::Final);
                    if backend.attempt(&journal, operation, purpose, PATIENCE).await.is_final() {
                        break;
                    }
                    time::sleep(PAUSE).await;
                }
            }
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended?;
    }
    process.stop(PATIENCE).await;
    Ok(())
}
