//! Connections of this crate itself, on its [background](crate::background) runtime.

use std::time::{Duration, Instant};

use tokio::time;
use tokio_postgres::{Client, NoTls};

use crate::error::{Cause, chain};

/// The time that one connection may take.
const ATTEMPT: Duration = Duration::from_secs(5);

/// The pause between two attempts to reach a server that is not up yet.
const PAUSE: Duration = Duration::from_millis(20);

/// Connects, within five seconds.
pub(crate) async fn connect(url: &str) -> Result<Client, Cause> {
    let connecting = time::timeout(ATTEMPT, tokio_postgres::connect(url, NoTls)).await;
    let (client, connection) = connecting.map_err(|_| format!("no answer within {ATTEMPT:?}"))??;
    // The task ends with the client.
    tokio::spawn(connection);
    Ok(client)
}

/// The version of the server at `url`, such as `15.18`.
pub(crate) async fn version(url: &str) -> Result<String, Cause> {
    let client = connect(url).await?;
    // Prepares no statement, because a PgBouncer may be in between.
    let row = client.query_typed_one("SHOW server_version", &[]).await?;
    let version: &str = row.try_get(0)?;
    Ok(version.split_whitespace().next().unwrap_or_default().to_owned())
}

/// Waits until the server at `url` answers, and returns its version. Gives up after `limit`, or as soon as `hopeless`
/// returns `true`.
pub(crate) async fn answers(url: &str, limit: Duration, hopeless: impl FnMut() -> bool) -> Result<String, Cause> {
    let begin = Instant::now();
    let persistent = async {
        loop {
            match version(url).await {
                Ok(version) => return Ok(version),
                Err(cause) if begin.elapsed() > limit => {
                    return Err(format!("no answer within {limit:?}: {}", chain(cause.as_ref())).into());
                }
                Err(_) => time::sleep(PAUSE).await,
            }
        }
    };
    tokio::select! {
        outcome = persistent => outcome,
        () = becomes(hopeless) => Err("it ended".into()),
    }
}

async fn becomes(mut condition: impl FnMut() -> bool) {
    while !condition() {
        time::sleep(PAUSE).await;
    }
}
