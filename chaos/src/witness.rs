//! The witness of each server: whether the database could be asked.

use std::{sync::Arc, time::Duration};

use tokio::{
    task::{JoinHandle, JoinSet},
    time,
};
use tokio_postgres::{Client, NoTls};

use crate::journal::Journal;

/// The timeout of the sample's store, its default. A server that answers within it could be asked.
pub(crate) const STORE_TIMEOUT: Duration = Duration::from_secs(5);

/// The share of it for a connection that was used before. It may be broken or silent without the database being away.
const KEPT: Duration = Duration::from_secs(1);

/// The number of new connections that are tried. A cut may hit one that is just being made.
const TRIES: u32 = 3;

/// The pause between two questions.
const PAUSE: Duration = Duration::from_millis(50);

/// Asks the database all the time, over the way of each server, and notes when there was no answer. Ends when dropped.
#[derive(Debug)]
pub(crate) struct Witnesses {
    _tasks: JoinSet<()>,
}

impl Witnesses {
    /// Starts a witness for each of the URLs, which are those of the servers. Each asks this statement.
    pub(crate) fn start(urls: impl Iterator<Item = String>, question: &'static str, journal: &Arc<Journal>) -> Self {
        let mut tasks = JoinSet::new();
        for (slot, url) in urls.enumerate() {
            tasks.spawn(watch(slot, url, question, Arc::clone(journal)));
        }
        Self { _tasks: tasks }
    }
}

/// A connection, which is closed when this is dropped.
struct Connection {
    client: Client,
    task: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn watch(slot: usize, url: String, question: &str, journal: Arc<Journal>) {
    let mut kept = None;
    let mut answered = journal.now();
    let mut blackout = None;
    loop {
        let asked = time::timeout(STORE_TIMEOUT, ask(&mut kept, &url, question)).await;
        let place = match asked {
            Ok(Ok(())) => blackout.take(),
            Ok(Err(_)) | Err(_) => {
                kept = None;
                Some(*blackout.get_or_insert_with(|| journal.blackout(slot, answered)))
            }
        };
        if let Some(place) = place {
            journal.blackout_lasts(place);
        }
        if blackout.is_none() {
            answered = journal.now();
        }
        time::sleep(PAUSE).await;
    }
}

/// Asks on the connection that was kept, and if that fails on new ones.
async fn ask(kept: &mut Option<Connection>, url: &str, question: &str) -> Result<(), tokio_postgres::Error> {
    if let Some(connection) = kept.as_ref()
        && let Ok(Ok(_)) = time::timeout(KEPT, connection.client.simple_query(question)).await
    {
        return Ok(());
    }
    *kept = None;
    let mut tries = 1;
    loop {
        match ask_anew(url, question).await {
            Ok(connection) => {
                *kept = Some(connection);
                return Ok(());
            }
            Err(_) if tries < TRIES => tries += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Asks on a new connection.
async fn ask_anew(url: &str, question: &str) -> Result<Connection, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    let task = tokio::spawn(async move {
        // The client learns of its error, too.
        let _ = connection.await;
    });
    let connection = Connection { client, task };
    connection.client.simple_query(question).await?;
    Ok(connection)
}
