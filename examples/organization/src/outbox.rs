//! The worker that processes the outbox.

use std::{convert::Infallible, time::Duration};

use tokio::{task::JoinHandle, time};
use tokio_postgres::{Client, types::Type};
use uuid::Uuid;

use crate::{bootstrap, error::Error, failure::chain};

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

#[cfg(test)]
mod tests {
    use scratch_postgres::TestDatabase;

    use super::*;
    use crate::{CLUSTER, ORGANIZATION};

    const DUE: &str = "UPDATE authz.outbox SET created = now() - interval '2 hours'";
    const AGE: &str = "1 hour";

    /// A database with an outbox row for each of these projects, none of which is due, and a worker's connection.
    async fn outbox(projects: i64) -> (TestDatabase, Client) {
        let database = scratch_postgres::database(None).await;
        bootstrap::bootstrap(database.url()).await.expect("the sample's tables");
        let client = worker(&database).await;
        let fill = format!(
            "TRUNCATE authz.outbox;
             INSERT INTO tenant.projects (organization_id, cluster_id, name)
             SELECT '{ORGANIZATION}', '{CLUSTER}', 'project ' || number FROM generate_series(1, {projects}) number;
             ANALYZE authz.outbox"
        );
        client.batch_execute(&fill).await.expect("the projects");
        (database, client)
    }

    /// Connects a worker that does not wait for locks.
    async fn worker(database: &TestDatabase) -> Client {
        let client = bootstrap::connect(database.url()).await.expect("a connection");
        client.batch_execute("SET lock_timeout = '1ms'").await.expect("the setting");
        client
    }

    async fn count(client: &Client, select: &str) -> i64 {
        client.query_typed_one(select, &[]).await.expect("a count").get(0)
    }

    /// Each row is processed by one of the workers if their numbers add up to that of all rows, and none is left.
    #[tokio::test]
    async fn two_workers_process_each_due_row_once_in_bounded_batches_and_leave_none() {
        let (database, one) = outbox(2 * BATCH + 50).await;
        let two = worker(&database).await;
        one.batch_execute(DUE).await.expect("all are due");

        one.batch_execute("BEGIN").await.expect("the rows stay locked");
        assert_eq!(process_batch(&one, AGE).await.expect("a batch"), BATCH);
        assert_eq!(process_batch(&two, AGE).await.expect("it does not wait for the locked rows"), BATCH);
        one.batch_execute("ROLLBACK").await.expect("this worker ends");

        assert_eq!(process_batch(&two, AGE).await.expect("a batch"), BATCH);
        assert_eq!(process_batch(&one, AGE).await.expect("a batch"), 50);
        assert_eq!(process_batch(&two, AGE).await.expect("none"), 0);
        let all = "SELECT count(*) FROM authz.outbox WHERE status = 'completed' AND retries = 0";
        assert_eq!(count(&one, all).await, 2 * BATCH + 50);
    }

    #[tokio::test]
    async fn does_not_read_the_rows_that_are_not_due() {
        let (database, client) = outbox(3000).await;
        let finish =
            "UPDATE authz.outbox SET status = 'completed', created = created - interval '2 hours' WHERE id % 2 = 0;
                      ANALYZE authz.outbox";
        client.batch_execute(finish).await.expect("half of them are done");
        // The server counts what each connection has read.
        let client = worker(&database).await;
        client.batch_execute("BEGIN").await.expect("a transaction");
        assert_eq!(process_batch(&client, AGE).await.expect("none is due"), 0);
        let read =
            "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relid = 'authz.outbox'::regclass";
        let read = count(&client, read).await;
        assert!(read <= 1, "{read} rows");
    }
}
