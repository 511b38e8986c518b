//! How often an operation took effect, by the user's own command.

use std::process::Stdio;

use tokio::process::Command;
use uuid::Uuid;

use crate::failure::Failure;

/// The variable that tells the command which operation it has to count.
const CHECK_UUID: &str = "CHECK_UUID";

pub(super) struct Counter(String);

impl Counter {
    pub(super) fn new(command: &str) -> Self {
        Self(command.to_owned())
    }

    pub(super) async fn count(&self, uuid: Uuid) -> Result<u64, Failure> {
        let printed = shell(&self.0).env(CHECK_UUID, uuid.to_string()).output().await;
        let printed = printed.map_err(|error| Failure::NoAnswer(format!("--count: {error}")))?;
        let [text, said] =
            [&printed.stdout, &printed.stderr].map(|text| String::from_utf8_lossy(text).trim().to_owned());
        text.parse().map_err(|_| {
            let status = printed.status;
            Failure::NoAnswer(format!("--count prints no number: {status}, {text:?}, and on standard error {said:?}"))
        })
    }
}

/// Kills the server, and starts it again, by the user's own command.
pub(super) async fn restart(command: &str) -> Result<(), Failure> {
    let status = shell(command).stdout(Stdio::null()).status().await;
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::NoAnswer(format!("--restart: {status}"))),
        Err(error) => Err(Failure::NoAnswer(format!("--restart: {error}"))),
    }
}

fn shell(command: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).stdin(Stdio::null()).kill_on_drop(true);
    shell
}
