use std::{convert::Infallible, time::Duration};

use tokio::{task::JoinHandle, time};
use tokio_postgres::{Client, types::Type};
use uuid::Uuid;

use crate::{bootstrap, failure::chain, run::Error};

const PROCESS: &str = include_str!("process_outbox.sql");

/// The most rows that are processed in one statement.
const BATCH: i64 = 100;

/// How often the worker looks for rows that have become old enough.
const INTERVAL: Duration = Duration::from_millis(200);

/// How long it waits before it tries a lost database again.
const RECONNECT: Duration = Duration::from_secs(1);

/// Processes `authz.outbox` in the background, until it is dropped. A batch is one statement, so that wherever that is, the
/// batch is processed or it is not.
#[derive(Debug)]
pub(crate) struct Worker {
    task: JoinHandle<()>,
}

impl Worker {
    /// Processes rows that are `delay` old, by the database's clock, on a connection of its own.
    pub(crate) fn spawn(database_url: String, delay: Duration) -> Self {
        Self { task: tokio::spawn(work(database_url, delay)) }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Connects, processes until that fails, and starts again: a database that is restarted is only a pause.
async fn work(database_url: String, delay: Duration) {
    let age = format!("{} microseconds", delay.as_micros());
    loop {
        let Err(error) = process(&database_url, &age).await;
        tracing::warn!(error = %chain(error.as_ref()), "the outbox waits for the database");
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

/// Processes what is due, at most [`BATCH`] rows, and returns how many there were.
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
