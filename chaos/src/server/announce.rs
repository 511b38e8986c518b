//! The announcement that a server is ready.

use std::{
    convert::Infallible,
    env, fs,
    path::{Path, PathBuf},
    time::Duration,
};

use uuid::Uuid;

use super::wire::Saying;
use crate::error::Error;

/// The interval between two looks for the file.
const INTERVAL: Duration = Duration::from_millis(5);

/// The path of the file that the sample writes when it is ready.
pub(super) fn path() -> PathBuf {
    env::temp_dir().join(format!("chaos-{}.json", Uuid::new_v4().simple()))
}

/// Waits for the file, deletes it (so that nothing is left if the process is killed), and sends its contents to the
/// harness. Then waits for ever.
pub(super) async fn announce(file: &Path) -> Result<Infallible, Error> {
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
