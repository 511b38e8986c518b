//! PgBouncer, in front of a server.

use std::{
    env,
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::task;
use tokio_postgres::{Config, config::Host};
use uuid::Uuid;

use crate::{account::Account, background, connection, error::Cause, port, supervisor::Supervisor, url};

/// How long one may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Says so in the log of one that found its port taken.
const PORT_TAKEN: &str = "nowhere to listen on";

/// Where packages put the program; not everybody's `PATH` leads there.
const DIRECTORIES: [&str; 5] =
    ["/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/opt/homebrew/bin", "/opt/homebrew/sbin"];

/// Runs it, and removes it; see there.
const SCRIPT: &str = include_str!("bouncer.sh");

/// What does not depend on the server.
const SETTINGS: [&str; 8] = [
    "[pgbouncer]",
    "listen_addr = 127.0.0.1",
    // Their paths are limited to a length that some temporary directories use up.
    "unix_socket_dir =",
    "auth_file = users.txt",
    "pool_mode = transaction",
    // Few, so that they really are shared, and in turn, so that whoever relies on a session soon meets another.
    "default_pool_size = 4",
    "server_round_robin = 1",
    "max_client_conn = 500",
];

/// A private PgBouncer in transaction mode (`pool_mode = transaction`) in front of a server: a client has a server
/// connection for the length of a transaction only. At most [four](Self::SERVER_CONNECTIONS) for a database are shared
/// by up to 500 clients, and taken in turn.
///
/// It lets in one user, whom it was given, with their password; that user may also look at its console, the database
/// `pgbouncer`. It is gone when this is dropped, and when the process ends, as a private [`Server`](crate::Server) is.
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
    /// How many connections to the server it makes, at most, for one database.
    pub const SERVER_CONNECTIONS: usize = 4;

    /// Why this machine cannot run one; `None` where it can.
    pub fn missing() -> Option<String> {
        program().err().or_else(|| Account::for_servers().err().map(|cause| cause.to_string()))
    }

    /// Starts one in front of the server that `server` leads to, for its user, and waits until its database answers
    /// through it.
    ///
    /// # Errors
    ///
    /// It [cannot be run](Self::missing) here, `server` names no host or no user, or there is no answer within 30 s;
    /// then with the last of its log.
    pub async fn start(server: &Config) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let program = program()?;
        let upstream = Upstream::new(server)?;
        background::runtime().spawn(async move { start(&program, &upstream).await }).await?
    }

    /// The address of the server's database through this, `postgres://…`, with the user and the password it was given.
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

/// The server behind it, and who may go there.
struct Upstream {
    config: Config,
    host: String,
    password: Option<String>,
    port: u16,
    user: String,
}

impl Upstream {
    fn new(config: &Config) -> Result<Self, Cause> {
        let host = match config.get_hosts().first() {
            Some(Host::Tcp(host)) => host.clone(),
            #[cfg(unix)]
            Some(Host::Unix(directory)) => directory.display().to_string(),
            None => return Err("the address of the server names no host".into()),
        };
        Ok(Self {
            config: config.clone(),
            host,
            password: config.get_password().map(|password| String::from_utf8(password.to_vec())).transpose()?,
            port: config.get_ports().first().copied().unwrap_or(5432),
            user: config.get_user().ok_or("the address of the server names no user")?.to_owned(),
        })
    }

    /// The lines of `pgbouncer.ini`, for a PgBouncer at `port` of 127.0.0.1.
    fn configuration(&self, port: u16) -> Vec<String> {
        let host = self.host.replace('\'', "''");
        // The password serves on both sides. A server that asks for none takes anybody, and so does PgBouncer then.
        let authentication = if self.password.is_some() { "scram-sha-256" } else { "trust" };
        let mut lines = vec!["[databases]".to_owned(), format!("* = host='{host}' port={}", self.port)];
        lines.extend(SETTINGS.map(str::to_owned));
        lines.push(format!("listen_port = {port}"));
        lines.push(format!("auth_type = {authentication}"));
        lines.push(format!("admin_users = {}", self.user));
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
    let mut attempts = 0;
    loop {
        attempts += 1;
        match launch(program, account.as_ref(), upstream, port::free()?).await {
            Err(cause) if attempts < port::ATTEMPTS && cause.to_string().contains(PORT_TAKEN) => {}
            outcome => return outcome,
        }
    }
}

/// Starts one at `port` of 127.0.0.1.
async fn launch(program: &Path, account: Option<&Account>, upstream: &Upstream, port: u16) -> Result<PgBouncer, Cause> {
    let url = url::through(&upstream.config, "127.0.0.1", port);
    let mut supervisor = Supervisor::spawn(SCRIPT, arguments(program, upstream.configuration(port)), account)?;
    // When the script is gone already, that shows below, with its reason.
    let _ = supervisor.tell(&upstream.user());
    match connection::answers(&url, PATIENCE, || supervisor.has_ended()).await {
        Ok(_) => Ok(PgBouncer { supervisor, url }),
        Err(cause) => {
            let log = task::spawn_blocking(|| supervisor.end()).await.unwrap_or_default();
            Err(format!("{} did not come up: {cause}; the last of its log:\n{log}", program.display()).into())
        }
    }
}

fn arguments(program: &Path, configuration: Vec<String>) -> Vec<OsString> {
    let name = format!("scratch-pgbouncer-{}", Uuid::new_v4().simple());
    let mut arguments: Vec<OsString> = vec![program.into(), name.into()];
    // The one of this process may be closed to the user that it runs as.
    arguments.extend([env::temp_dir().into(), "/tmp".into(), "/var/tmp".into()]);
    arguments.push("--".into());
    arguments.extend(configuration.into_iter().map(OsString::from));
    arguments
}

/// The program, on `PATH` or where packages put it.
fn program() -> Result<PathBuf, String> {
    let on_path: Vec<PathBuf> = env::var_os("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default();
    let directories = on_path.into_iter().chain(DIRECTORIES.into_iter().map(PathBuf::from));
    directories
        .map(|directory| directory.join("pgbouncer"))
        // A relative directory on `PATH` is somebody's accident, and the program starts elsewhere.
        .find(|program| program.is_absolute() && program.is_file())
        .ok_or_else(|| "there is no program pgbouncer, neither on PATH nor where packages put it".to_owned())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn upstream(server: &str) -> Upstream {
        Upstream::new(&server.parse().expect("an address")).expect("a server")
    }

    #[test]
    fn configuration_quotes_what_it_was_given() {
        let upstream = upstream(r#"host=h'1 port=5433 user=u password='p"w\'d'"#);
        assert!(upstream.configuration(7).contains(&"* = host='h''1' port=5433".to_owned()));
        assert!(upstream.configuration(7).contains(&"auth_type = scram-sha-256".to_owned()));
        assert_eq!(upstream.user(), r#""u" "p""w'd""#);
    }

    #[test]
    fn configuration_asks_for_no_password_where_there_is_none() {
        let upstream = upstream("postgres://u@h");
        assert!(upstream.configuration(7).contains(&"auth_type = trust".to_owned()));
        assert_eq!(upstream.user(), r#""u" """#);
    }

    #[tokio::test]
    async fn says_why_one_did_not_come_up() {
        if let Some(why) = PgBouncer::missing() {
            return crate::skip("pgbouncer", why);
        }
        let account = Account::for_servers().expect("a user");
        let taken = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = taken.local_addr().expect("a port").port();

        let outcome =
            launch(&program().expect("the program"), account.as_ref(), &upstream("postgres://u@h"), port).await;

        let text = outcome.err().map(|cause| cause.to_string()).unwrap_or_default();
        assert!(text.contains(PORT_TAKEN), "{text}");
        assert!(text.contains("did not come up"), "{text}");
    }
}
