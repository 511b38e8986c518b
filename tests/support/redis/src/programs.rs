//! The programs of Redis on this machine.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::error::StartError;

pub(crate) const SERVER: &str = "redis-server";
const CLIENT: &str = "redis-cli";

/// The time within which servers answer, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the reason why servers cannot be started here; `None` if they can.
pub fn missing() -> Option<String> {
    let lacks = |program: &&&str| {
        let run = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        !run.is_ok_and(|status| status.success())
    };
    let program = [&SERVER, &CLIENT].iter().copied().find(|program| lacks(program))?;
    Some(format!("there is no program {program} on PATH (Debian: redis-server, redis-tools)"))
}

/// Sends a server one command, and returns its answer as `redis-cli` prints it; empty if there is none.
pub(crate) fn ask(port: u16, command: &[&str]) -> String {
    let output = Command::new(CLIENT).args(["-h", "127.0.0.1", "-p", &port.to_string()]).args(command).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

/// Runs `redis-cli --cluster create`, and ends it in time: it would wait forever for a node that has missed its
/// invitation.
pub(crate) fn create_cluster(ports: &[u16], replicas: u16) -> Result<(), StartError> {
    let mut creation = Command::new(CLIENT)
        .args(["--cluster", "create"])
        .args(ports.iter().map(|port| format!("127.0.0.1:{port}")))
        .args(["--cluster-replicas", &replicas.to_string(), "--cluster-yes"])
        .stdout(Stdio::piped())
        .spawn()?;
    let ended = until("redis-cli has made the cluster", || !matches!(creation.try_wait(), Ok(None)));
    creation.kill()?;
    let output = creation.wait_with_output()?;
    match ended {
        Ok(()) if output.status.success() => Ok(()),
        Ok(()) => Err(StartError::new(String::from_utf8_lossy(&output.stdout))),
        Err(error) => Err(error),
    }
}

/// Waits until a condition holds.
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) -> Result<(), StartError> {
    let began = Instant::now();
    while !condition() {
        if began.elapsed() > PATIENCE {
            return Err(StartError::new(format_args!("not within {PATIENCE:?}: {what}")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
