//! Servers from PostgreSQL's binaries on this machine.

use std::{ffi::OsString, path::Path, time::Duration};

use tokio::task;
use uuid::Uuid;

use crate::{
    account::Account,
    binaries::Binaries,
    connection,
    error::Cause,
    port,
    server::Started,
    settings::{self, Durability},
    supervisor::{self, Supervisor},
};

/// The time in which a server must answer, including the creation of its data directory.
const PATIENCE: Duration = Duration::from_secs(120);

/// The text in the log of a server that found its port taken.
pub(crate) const PORT_TAKEN: &str = "could not create any TCP/IP sockets";

/// The script that creates, runs and removes the server. The file describes it.
const SCRIPT: &str = include_str!("installed.sh");

/// Starts a server from these binaries, with further settings (`name=value`) beside its own. Dropping or ending the returned
/// supervisor removes the server.
///
/// # Errors
///
/// There is no user to run the binaries as, or the server does not answer within 120 s: then the error has the last
/// lines of the log.
pub(crate) async fn start(
    binaries: &Binaries,
    durability: Durability,
    further: &[String],
) -> Result<Started<Supervisor>, Cause> {
    let account = Account::for_servers()?;
    let launch = |ports: Vec<u16>| launch(binaries, account.as_ref(), ports[0], durability, further);
    port::on_free(1, PORT_TAKEN, launch).await
}

/// Kills every process of the server, and waits until they are gone.
///
/// # Errors
///
/// The script has ended, or could not kill the server.
pub(crate) fn kill(supervisor: &mut Supervisor) -> Result<(), Cause> {
    match supervisor.ask("kill")?.as_str() {
        "killed" => Ok(()),
        "" => Err("the script that supervises the server has ended".into()),
        said => Err(said.into()),
    }
}

/// Starts a server that was killed or upgraded, with its data and its port, unless it runs already. Waits until it
/// answers, and returns its version.
///
/// # Errors
///
/// The server does not answer within 120 s.
pub(crate) async fn restart(supervisor: &mut Supervisor, url: &str) -> Result<String, Cause> {
    supervisor.tell("restart")?;
    match connection::answers(url, PATIENCE, || supervisor.has_ended()).await {
        Ok(version) => Ok(version),
        Err(cause) => {
            let log = supervisor.last_words().unwrap_or_default();
            Err(format!("the server did not restart: {cause}; the last of its log:\n{log}").into())
        }
    }
}

/// Stops the server, upgrades its data with the `pg_upgrade` in the directory `to`, and starts a server from the
/// binaries there. Blocks the thread.
///
/// # Errors
///
/// A program is missing or fails; the error has the last lines of the log.
pub(crate) fn upgrade(supervisor: &mut Supervisor, to: &Path) -> Result<(), Cause> {
    match supervisor.ask(&format!("upgrade {}", to.display()))?.as_str() {
        "upgraded" => Ok(()),
        "" => Err("the script that supervises the server has ended".into()),
        said => Err(said.into()),
    }
}

/// Starts a server on `port` of 127.0.0.1.
async fn launch(
    binaries: &Binaries,
    account: Option<&Account>,
    port: u16,
    durability: Durability,
    further: &[String],
) -> Result<Started<Supervisor>, Cause> {
    let name = format!("scratch-postgres-{}", Uuid::new_v4().simple());
    let password = Uuid::new_v4().simple().to_string();
    let url = format!("postgres://postgres:{password}@127.0.0.1:{port}/postgres");

    let mut supervisor = Supervisor::spawn(SCRIPT, arguments(binaries, &name, port, durability, further), account)?;
    // If the script has ended already, the error below has the reason.
    let _ = supervisor.tell(&password);
    match connection::answers(&url, PATIENCE, || supervisor.has_ended()).await {
        Ok(version) => {
            let user = account.map(|account| format!(" as user {}", account.name)).unwrap_or_default();
            let origin = format!("from {}, private{user}", binaries.directory.display());
            Ok(Started { keeper: supervisor, origin, removal: "removed at exit", url, version })
        }
        Err(cause) => {
            let log = task::spawn_blocking(|| supervisor.end()).await.unwrap_or_default();
            Err(format!("{} did not start: {cause}; the last of its log:\n{log}", binaries.directory.display()).into())
        }
    }
}

fn arguments(binaries: &Binaries, name: &str, port: u16, durability: Durability, further: &[String]) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec![binaries.directory.clone().into(), name.into()];
    arguments.extend(supervisor::places(durability == Durability::Nothing));
    let port = format!("port={port}");
    // No Unix sockets: their paths have a length limit that some temporary directories exceed.
    for setting in ["listen_addresses=127.0.0.1", "unix_socket_directories=", &port] {
        arguments.extend(["-c".into(), setting.into()]);
    }
    arguments.extend(settings::arguments(durability).map(OsString::from));
    arguments.extend(further.iter().flat_map(|setting| ["-c".into(), setting.into()]));
    arguments
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn reports_why_a_server_did_not_start() {
        let Ok(binaries) = Binaries::find() else {
            return crate::skip("installed-postgres", "no server binaries");
        };
        let account = Account::for_servers().expect("a user");
        let taken = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = taken.local_addr().expect("a port").port();

        let outcome = launch(&binaries, account.as_ref(), port, Durability::Nothing, &[]).await;

        let text = outcome.err().map(|cause| cause.to_string()).unwrap_or_default();
        assert!(text.contains(PORT_TAKEN), "{text}");
        assert!(text.contains("did not start"), "{text}");
    }
}
