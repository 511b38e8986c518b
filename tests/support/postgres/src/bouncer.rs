//! PgBouncer in front of a server.

use std::{
    env,
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use tokio::task;
use tokio_postgres::{Config, config::Host};
use uuid::Uuid;

use crate::{
    account::Account,
    background, connection,
    error::Cause,
    port, program,
    supervisor::{self, Supervisor},
    url,
};

/// The time in which a PgBouncer must answer.
const PATIENCE: Duration = Duration::from_secs(120);

/// The text in the log of a PgBouncer that found its port taken.
const PORT_TAKEN: &str = "nowhere to listen on";

/// The variable that names a program to use instead of the installed one.
const CHOSEN: &str = "IDEMPOTENCY_TEST_PGBOUNCER";

/// Runs and removes the PgBouncer; described in the file.
const SCRIPT: &str = include_str!("bouncer.sh");

/// The settings that do not depend on the server.
const SETTINGS: [&str; 8] = [
    "[pgbouncer]",
    "listen_addr = 127.0.0.1",
    // Their paths have a length limit that some temporary directories exceed.
    "unix_socket_dir =",
    "auth_file = users.txt",
    "pool_mode = transaction",
    // Few, so that they are really shared, and in rotation, so that a client that relies on a session soon gets another
    // one.
    "default_pool_size = 4",
    "server_round_robin = 1",
    "max_client_conn = 500",
];

/// A private PgBouncer in transaction mode (`pool_mode = transaction`) in front of a server: a client has a server
/// connection during a transaction only. Up to 500 clients share at most [four](Self::SERVER_CONNECTIONS) connections
/// for a database, in rotation, unless it is [started with](Self::start_with) other settings.
///
/// It admits one user, the given one, with their password. That user may also use its console, the database
/// `pgbouncer`. It is removed when this is dropped, and when the process ends, like a private
/// [`Server`](crate::Server).
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// use scratch_postgres::{PgBouncer, skip};
///
/// if let Some(why) = PgBouncer::missing() {
///     return Ok(skip("pgbouncer", why));
/// }
/// let database = scratch_postgres::database(None).await;
/// let bouncer = PgBouncer::start(&database.url().parse()?).await?;
/// let (client, connection) = tokio_postgres::connect(bouncer.url(), tokio_postgres::NoTls).await?;
/// # Ok(())
/// # }
/// ```
pub struct PgBouncer {
    supervisor: Supervisor,
    url: String,
}

impl PgBouncer {
    /// The maximum number of connections to the server for one database, if it is not set otherwise.
    pub const SERVER_CONNECTIONS: usize = 4;

    /// The reason why this machine cannot run PgBouncer; `None` if it can.
    pub fn missing() -> Option<String> {
        program().err().or_else(|| Account::for_servers().err().map(|cause| cause.to_string()))
    }

    /// Whether this PgBouncer can track prepared statements, as it can from version 1.21 on: with the setting
    /// `max_prepared_statements`, clients find theirs on every server connection.
    pub fn tracks_prepared_statements() -> bool {
        let version = program().ok().and_then(|program| Command::new(program).arg("--version").output().ok());
        version.is_some_and(|version| has_tracking(&String::from_utf8_lossy(&version.stdout)))
    }

    /// Starts a PgBouncer in front of the server in `server`, for its user, and waits until the database answers
    /// through it.
    ///
    /// # Errors
    ///
    /// PgBouncer [cannot run](Self::missing) here, `server` has no host or no user, or there is no answer within 120 s;
    /// the error then has the last lines of the log.
    pub async fn start(server: &Config) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Self::start_with(server, &[]).await
    }

    /// Does the same as [`start`](Self::start), with further settings: lines of `pgbouncer.ini`, such as
    /// `default_pool_size = 20`, which replace its own settings of the same name.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start), or a setting is wrong.
    pub async fn start_with(
        server: &Config,
        settings: &[&str],
    ) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let program = program()?;
        let upstream = Upstream::new(server, settings)?;
        background::runtime().spawn(async move { start(&program, &upstream).await }).await?
    }

    /// Returns the last lines of its log if it has ended by itself; `None` while it runs.
    pub fn ended(&mut self) -> Option<String> {
        self.supervisor.last_words()
    }

    /// The URL of the server's database through this, `postgres://…`, with the given user and password.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl fmt::Debug for PgBouncer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { supervisor, url } = self;
        f.debug_struct("PgBouncer").field("supervisor", supervisor).field("place", &url::place(url)).finish()
    }
}

/// Returns whether this is the version, `PgBouncer 1.21.0`, of one that can track prepared statements.
fn has_tracking(version: &str) -> bool {
    let version = version.split_whitespace().nth(1).and_then(|version| version.split_once('.'));
    let Some((major, rest)) = version else { return false };
    let minor = rest.split('.').next().unwrap_or_default();
    matches!((major.parse::<u32>(), minor.parse::<u32>()), (Ok(major), Ok(minor)) if (major, minor) >= (1, 21))
}

/// The server behind PgBouncer, and the user.
struct Upstream {
    config: Config,
    host: String,
    password: Option<String>,
    port: u16,
    settings: Vec<String>,
    user: String,
}

impl Upstream {
    fn new(config: &Config, settings: &[&str]) -> Result<Self, Cause> {
        let host = match config.get_hosts().first() {
            Some(Host::Tcp(host)) => host.clone(),
            #[cfg(unix)]
            Some(Host::Unix(directory)) => directory.display().to_string(),
            None => return Err("the server's connection string has no host".into()),
        };
        Ok(Self {
            config: config.clone(),
            host,
            password: config.get_password().map(|password| String::from_utf8(password.to_vec())).transpose()?,
            port: config.get_ports().first().copied().unwrap_or(5432),
            settings: settings.iter().map(|setting| (*setting).to_owned()).collect(),
            user: config.get_user().ok_or("the server's connection string has no user")?.to_owned(),
        })
    }

    /// The lines of `pgbouncer.ini`, for a PgBouncer on `port` of 127.0.0.1.
    fn configuration(&self, port: u16) -> Vec<String> {
        let host = self.host.replace('\'', "''");
        // The password is used on both sides. If the server needs none, PgBouncer needs none either.
        let authentication = if self.password.is_some() { "scram-sha-256" } else { "trust" };
        let mut lines = vec!["[databases]".to_owned(), format!("* = host='{host}' port={}", self.port)];
        lines.extend(SETTINGS.map(str::to_owned));
        lines.push(format!("listen_port = {port}"));
        lines.push(format!("auth_type = {authentication}"));
        lines.push(format!("admin_users = {}", self.user));
        lines.extend(self.settings.iter().cloned());
        lines
    }

    /// The line of `users.txt`.
    fn user(&self) -> String {
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        format!("{} {}", quoted(&self.user), quoted(self.password.as_deref().unwrap_or_default()))
    }
}

async fn start(program: &Path, upstream: &Upstream) -> Result<PgBouncer, Cause> {
    let account = Account::for_servers()?;
    port::on_free(1, PORT_TAKEN, |ports| launch(program, account.as_ref(), upstream, ports[0])).await
}

/// Starts a PgBouncer on `port` of 127.0.0.1.
async fn launch(program: &Path, account: Option<&Account>, upstream: &Upstream, port: u16) -> Result<PgBouncer, Cause> {
    let url = url::through(&upstream.config, "127.0.0.1", port);
    let mut supervisor = Supervisor::spawn(SCRIPT, arguments(program, upstream.configuration(port)), account)?;
    // If the script has ended already, the error below has the reason.
    let _ = supervisor.tell(&upstream.user());
    match connection::answers(&url, PATIENCE, || supervisor.has_ended()).await {
        Ok(_) => Ok(PgBouncer { supervisor, url }),
        Err(cause) => {
            let log = task::spawn_blocking(|| supervisor.end()).await.unwrap_or_default();
            Err(format!("{} did not start: {cause}; the last of its log:\n{log}", program.display()).into())
        }
    }
}

fn arguments(program: &Path, configuration: Vec<String>) -> Vec<OsString> {
    let name = format!("scratch-pgbouncer-{}", Uuid::new_v4().simple());
    let mut arguments: Vec<OsString> = vec![program.into(), name.into()];
    arguments.extend(supervisor::places(false));
    arguments.extend(configuration.into_iter().map(OsString::from));
    arguments
}

/// The program: the [chosen](CHOSEN) one, or that on `PATH` or in a directory of packages.
fn program() -> Result<PathBuf, String> {
    if let Some(chosen) = env::var_os(CHOSEN).map(PathBuf::from) {
        return if chosen.is_absolute() && chosen.is_file() {
            Ok(chosen)
        } else {
            Err(format!("{CHOSEN} is not the absolute path of a program: {}", chosen.display()))
        };
    }
    program::find("pgbouncer")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prepared_statements_are_tracked_from_one_version_on() {
        for (version, tracks) in [
            ("PgBouncer 1.18.0\nlibevent 2.1.12-stable", false),
            ("PgBouncer 1.21.0", true),
            ("PgBouncer 1.25.2\n", true),
            ("PgBouncer 2.0", true),
            ("", false),
            ("PgBouncer", false),
        ] {
            assert_eq!(has_tracking(version), tracks, "{version}");
        }
    }
}
