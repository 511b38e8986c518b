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

/// How often the file is looked for.
const INTERVAL: Duration = Duration::from_millis(5);

/// What a client needs to know to call a server.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Ready {
    pub(crate) address: SocketAddr,
    pub(crate) cluster_id: Uuid,
    pub(crate) tokens: Tokens,
}

/// Good for this life of the server only.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Tokens {
    pub(crate) alice: String,
    pub(crate) bob: String,
}

/// A file for the sample to say that it is ready.
pub(super) fn path() -> PathBuf {
    env::temp_dir().join(format!("chaos-{}.json", Uuid::new_v4().simple()))
}

/// Waits for the file, takes it away, so that nobody has to clean up after a process that is killed, and tells the
/// harness what was in it. Then waits for ever.
pub(super) async fn announce(file: &Path) -> Error {
    match try_announce(file).await {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

async fn try_announce(file: &Path) -> Result<Infallible, Error> {
    let written = loop {
        // It appears at once as a whole.
        match fs::read(file) {
            Ok(written) => break written,
            Err(_) => tokio::time::sleep(INTERVAL).await,
        }
    };
    fs::remove_file(file)?;
    Saying::Ready(serde_json::from_slice(&written)?).say();
    std::future::pending().await
}
