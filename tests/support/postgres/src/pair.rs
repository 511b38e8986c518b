//! A primary and its standby.

use std::{
    ffi::OsString,
    fmt,
    net::SocketAddr,
    time::{Duration, Instant},
};

use tokio::time;
use tokio_postgres::Config;
use uuid::Uuid;

use crate::{
    CrashError,
    account::Account,
    background,
    binaries::Binaries,
    connection,
    error::Cause,
    installed::PORT_TAKEN,
    port,
    settings::{self, Durability},
    supervisor::{self, Ordered, Supervisor},
    url,
};

/// The time in which a server must answer, or a standby follow.
const PATIENCE: Duration = Duration::from_secs(120);

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// Runs and removes both servers; described in the file.
const SCRIPT: &str = include_str!("pair.sh");

/// The options of both servers.
const OPTIONS: [&str; 4] =
    ["listen_addresses=127.0.0.1", "unix_socket_directories=", "hot_standby=on", "wal_retrieve_retry_interval=100ms"];

/// Two private PostgreSQL servers from installed binaries: a primary, whose commits wait for its standby, and the standby. Both keep
/// committed data when they are killed. Removed when this is dropped, and when the process ends, like a private
/// [`Server`](crate::Server).
pub struct Pair {
    password: String,
    ports: [u16; 2],
    primary: usize,
    supervisor: Ordered,
}

impl Pair {
    /// Starts both servers.
    ///
    /// # Errors
    ///
    /// The server binaries are missing, or they do not start.
    pub async fn start() -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        background::runtime().spawn(start()).await?
    }

    /// The URL of the primary, for a superuser.
    pub fn primary(&self) -> String {
        self.url_of(&[self.address_of_primary()])
    }

    /// The URL of the server that is not the primary: its standby, unless it was killed or the two were [split](Self::split).
    pub fn standby(&self) -> String {
        self.url_of(&[self.address_of_standby()])
    }

    /// The URL of both servers, with `target_session_attrs=read-write`.
    pub fn both(&self) -> String {
        self.url_of(&self.ports.map(address))
    }

    /// The address of the primary.
    pub fn address_of_primary(&self) -> SocketAddr {
        address(self.ports[self.primary])
    }

    /// The address of the server that is not the primary.
    pub fn address_of_standby(&self) -> SocketAddr {
        address(self.ports[1 - self.primary])
    }

    /// Kills the primary, and promotes the standby. Commits of the new primary wait for no standby until the old one
    /// [rejoins](Self::rejoin).
    ///
    /// # Errors
    ///
    /// There is no standby.
    pub async fn fail_over(&mut self) -> Result<(), CrashError> {
        let (primary, standby) = (self.primary, 1 - self.primary);
        self.supervisor.order(format!("kill {primary}")).await?;
        self.supervisor.order(format!("promote {standby}")).await?;
        self.primary = standby;
        Ok(())
    }

    /// Promotes the standby, and does not fence the old primary, whose commits wait in vain.
    ///
    /// # Errors
    ///
    /// There is no standby.
    pub async fn split(&mut self) -> Result<(), CrashError> {
        let standby = 1 - self.primary;
        self.supervisor.order(format!("promote {standby}")).await?;
        self.primary = standby;
        Ok(())
    }

    /// Kills the standby. Commits of the primary wait for it all the same.
    ///
    /// # Errors
    ///
    /// There is none.
    pub async fn kill_standby(&self) -> Result<(), CrashError> {
        self.supervisor.order(format!("kill {}", 1 - self.primary)).await
    }

    /// Makes the server that was killed a standby of the primary, and waits until it follows. What only it had is undone.
    ///
    /// # Errors
    ///
    /// It was not killed, or does not start; or the binaries come without `pg_rewind` or `psql`.
    pub async fn rejoin(&self) -> Result<(), CrashError> {
        let (primary, standby) = (self.primary, 1 - self.primary);
        self.supervisor.order(format!("rewind {standby} {primary}")).await?;
        self.supervisor.order(format!("start {standby}")).await?;
        let (standby, primary) = (self.standby(), self.primary());
        let following = background::runtime().spawn(async move { follow(&standby, &primary).await });
        following.await.map_err(|error| CrashError(error.into()))?.map_err(CrashError)
    }

    fn url_of(&self, addresses: &[SocketAddr]) -> String {
        let hosts: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
        let mut config = Config::new();
        config.user("postgres").password(&self.password).dbname("postgres");
        url::to_primary(&config, &hosts)
    }
}

/// Keeps the password out of logs.
impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair").field("ports", &self.ports).field("primary", &self.primary).finish_non_exhaustive()
    }
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

async fn start() -> Result<Pair, Cause> {
    port::on_free(2, PORT_TAKEN, |ports| launch([ports[0], ports[1]])).await
}

async fn launch(ports: [u16; 2]) -> Result<Pair, Cause> {
    let binaries = Binaries::find()?;
    let account = Account::for_servers()?;
    let mut supervisor = Supervisor::spawn(SCRIPT, arguments(&binaries, ports), account.as_ref())?;
    let password = Uuid::new_v4().simple().to_string();
    supervisor.tell(&password)?;
    let supervisor = Ordered::new(supervisor);
    let pair = Pair { password, ports, primary: 0, supervisor };
    for order in ["make 0", "copy 1 0", "start 0", "start 1"] {
        pair.supervisor.order(order).await?;
    }
    connection::answers(&pair.primary(), PATIENCE, || false).await?;
    follow(&pair.standby(), &pair.primary()).await?;
    Ok(pair)
}

fn arguments(binaries: &Binaries, ports: [u16; 2]) -> Vec<OsString> {
    let name = format!("scratch-postgres-{}", Uuid::new_v4().simple());
    let mut arguments: Vec<OsString> = vec![binaries.directory.clone().into(), name.into()];
    arguments.extend(ports.map(|port| OsString::from(port.to_string())));
    arguments.extend(supervisor::places(true));
    arguments.extend(OPTIONS.iter().flat_map(|option| [OsString::from("-c"), OsString::from(*option)]));
    arguments.extend(settings::arguments(Durability::Commits).map(OsString::from));
    arguments
}

/// Waits until the standby follows the primary, whose commits wait for it from then on.
async fn follow(standby: &str, primary: &str) -> Result<(), Cause> {
    connection::answers(standby, PATIENCE, || false).await?;
    let client = connection::connect(primary).await?;
    client.batch_execute("ALTER SYSTEM SET synchronous_standby_names = '*'").await?;
    client.batch_execute("SELECT pg_reload_conf()").await?;
    let follows = "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync' AND state = 'streaming')";
    let begun = Instant::now();
    while !client.query_typed_one(follows, &[]).await?.try_get::<_, bool>(0)? {
        if begun.elapsed() > PATIENCE {
            return Err("the standby does not follow".into());
        }
        time::sleep(PAUSE).await;
    }
    Ok(())
}
