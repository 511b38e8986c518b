//! The announcement that a server is ready.

use std::{
    convert::Infallible,
    env, fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::wire::Saying;
use crate::error::Error;

/// The interval between two looks for the file.
const INTERVAL: Duration = Duration::from_millis(5);

/// Everything that a client needs to call a server.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Ready {
    pub(crate) address: SocketAddr,
    pub(crate) cluster_id: Uuid,
    pub(crate) tokens: Tokens,
}

/// The users' tokens, valid for this life of the server only.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Tokens {
    pub(crate) alice: String,
    pub(crate) bob: String,
}

/// The path of the file that the sample writes when it is ready.
pub(super) fn path() -> PathBuf {
    env::temp_dir().join(format!("chaos-{}.json", Uuid::new_v4().simple()))
}

/// Waits for the file, deletes it (so that nothing is left if the process is killed), and sends its contents to the
/// harness. Then waits for ever.
pub(super) async fn announce(file: &Path) -> Error {
    match try_announce(file).await {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

async fn try_announce(file: &Path) -> Result<Infallible, Error> {
    let written = loop {
        // The sample creates the file atomically.
        match fs::read(file) {
            Ok(written) => break written,
            Err(_) => tokio::time::sleep(INTERVAL).await,
        }
    };
    fs::remove_file(file)?;
    Saying::Ready(serde_json::from_slice(&written)?).say();
    std::future::pending().await
}
