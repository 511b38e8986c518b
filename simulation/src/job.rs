//! The asynchronous work behind what an operation has created: a worker beside the servers does it, and writes down how far it is.

use tokio::time::sleep;
use tonic_idempotency::status::{OutboxStatus, ResourceId};
use uuid::Uuid;

use crate::{
    database::Database,
    ledger::{Ledger, StatusChange},
    plan::Job,
    world::World,
};

/// Returns the id of what a run creates.
pub fn resource_of(run: u64) -> Uuid {
    Uuid::from_u128(u128::from(run) + 1)
}

/// Begins the work behind what a run has created.
pub fn begin(world: &World, database: &Database, ledger: &Ledger, run: usize, job: Job) {
    let (world, database, ledger) = (world.clone(), database.clone(), ledger.clone());
    let resource = ResourceId::from(resource_of(run as u64));
    let reach = move |status| {
        world.tell(format_args!("worker"), format_args!("the work behind run {run} is {status:?}"));
        database.set_status(&resource, Some(status));
        ledger.lock().statuses.push(StatusChange { run, at: world.time(), status });
    };
    reach(OutboxStatus::Pending);
    tokio::spawn(async move {
        if job.is_tried_again {
            sleep(job.takes).await;
            reach(OutboxStatus::Retrying);
        }
        sleep(job.takes).await;
        reach(if job.succeeds { OutboxStatus::Completed } else { OutboxStatus::Failed });
    });
}
