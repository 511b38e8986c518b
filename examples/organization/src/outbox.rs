//! The worker that processes the outbox.

use std::{convert::Infallible, time::Duration};

use tokio::{task::JoinHandle, time};
use tokio_postgres::{Client, types::Type};
use uuid::Uuid;

use crate::{bootstrap, failure::chain, run::Error};

const PROCESS: &str = include_str!("process_outbox.sql");

/// The maximum number of rows that one statement processes.
const BATCH: i64 = 100;

/// How often the worker looks for rows to process.
const INTERVAL: Duration = Duration::from_millis(200);

/// How long the worker waits before it reconnects to the database.
const RECONNECT: Duration = Duration::from_secs(1);

/// A task that processes `authz.outbox` in the background until it is dropped. A batch is one statement, so it is
/// processed as a whole or not at all, whenever the task is stopped.
#[derive(Debug)]
pub(crate) struct Worker {
    task: JoinHandle<()>,
}

impl Worker {
    /// Starts a worker with a connection of its own. It processes rows that are older than `delay` by the database's
    /// clock.
    pub(crate) fn spawn(database_url: String, delay: Duration) -> Self {
        Self { task: tokio::spawn(work(database_url, delay)) }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Connects, processes rows until an error occurs, and connects again. A restart of the database is only a pause.
async fn work(database_url: String, delay: Duration) {
    let age = format!("{} microseconds", delay.as_micros());
    loop {
        let Err(error) = process(&database_url, &age).await;
        tracing::warn!(error = %chain(error.as_ref()), "outbox: the database is unavailable; reconnecting");
        time::sleep(RECONNECT).await;
    }
}

async fn process(database_url: &str, age: &str) -> Result<Infallible, Error> {
    let client = bootstrap::connect(database_url).await?;
    loop {
        if process_batch(&client, age).await? < BATCH {
            time::sleep(INTERVAL).await;
        }
    }
}

/// Processes at most [`BATCH`] due rows and returns their number.
async fn process_batch(client: &Client, age: &str) -> Result<i64, Error> {
    let rows = client.query_typed(PROCESS, &[(&age, Type::TEXT), (&BATCH, Type::INT8)]).await?;
    let mut processed = 0;
    for row in rows {
        let resource: Uuid = row.try_get("resource")?;
        let status: &str = row.try_get("status")?;
        tracing::info!(%resource, status, "outbox");
        processed += 1;
    }
    Ok(processed)
}
