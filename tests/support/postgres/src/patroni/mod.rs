//! PostgreSQL servers under Patroni.

mod configuration;

use std::{
    ffi::OsString,
    fmt,
    net::SocketAddr,
    path::PathBuf,
    time::{Duration, Instant},
};

use tokio::time;
use tokio_postgres::Config;
use uuid::Uuid;

use self::configuration::Configuration;
use crate::{
    CrashError,
    account::Account,
    background,
    binaries::Binaries,
    connection,
    error::Cause,
    http, port, program,
    supervisor::{self, Ordered, Supervisor},
    url,
};

/// The time in which all servers must run, which includes two copies of the first.
const START: Duration = Duration::from_secs(90);

/// The time in which etcd must answer.
const ETCD: Duration = Duration::from_secs(120);

/// The time that a question to Patroni may take.
const ANSWER: Duration = Duration::from_secs(1);

/// The time that a switchover may take.
const SWITCHOVER: Duration = Duration::from_secs(120);

/// The pause between two questions.
const PAUSE: Duration = Duration::from_millis(50);

/// The number of servers.
const NODES: usize = 3;

/// Runs and removes everything; described in the file.
const SCRIPT: &str = include_str!("patroni.sh");

/// The servers for which a COMMIT of the primary waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replication {
    /// Only for the primary.
    Asynchronous,
    /// For one of the standbys, too, whatever happens (`synchronous_mode_strict`). Only that one is ever promoted.
    Synchronous,
}

/// Three private PostgreSQL servers with streaming replication, of which Patroni makes one the primary; with a private etcd, and a
/// HAProxy that leads to the primary. Removed when this is dropped, and when the process ends, like a private
/// [`Server`](crate::Server).
///
/// A primary that is [killed](Self::kill) or [frozen](Self::freeze) is replaced after about five seconds. The servers keep committed
/// data when they are killed.
pub struct Patroni {
    configuration: Configuration,
    supervisor: Ordered,
}

impl Patroni {
    /// The reason why this machine cannot run Patroni, with the packages to install; `None` if it can.
    pub fn missing() -> Option<String> {
        let programs = Programs::find().err()?;
        Some(format!(
            "Patroni needs more programs: on Debian and Ubuntu `apt-get install patroni etcd-server haproxy python3-etcd \
             python3-psycopg2 postgresql`. {programs}"
        ))
    }

    /// Starts everything, and waits until all servers run.
    ///
    /// # Errors
    ///
    /// Something is [missing](Self::missing), or the servers do not run within 90 s; the error then has the last lines of the logs.
    pub async fn start(replication: Replication) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        background::runtime().spawn(start(replication)).await?
    }

    /// The address of HAProxy.
    pub fn front(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.configuration.front))
    }

    /// The addresses of the servers.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.configuration.nodes.iter().map(|(server, _)| SocketAddr::from(([127, 0, 0, 1], *server))).collect()
    }

    /// The URL of the superuser's connections to whichever of these addresses leads to the primary.
    pub fn url_of(&self, addresses: &[SocketAddr]) -> String {
        url_of(&self.configuration.password, addresses)
    }

    /// The node of the primary, if its Patroni says that it is.
    pub async fn primary(&self) -> Option<usize> {
        primary(&self.configuration.nodes).await
    }

    /// Whether there are a primary and two standbys that follow it, one of them synchronously if the replication is.
    pub async fn is_whole(&self) -> bool {
        self.has_standbys(NODES - 1).await
    }

    /// Whether there are a primary and a standby that may take over from it.
    pub async fn can_fail_over(&self) -> bool {
        self.has_standbys(1).await
    }

    async fn has_standbys(&self, number: usize) -> bool {
        has_standbys(&self.configuration, number).await
    }

    /// Ends all processes of a node at once, as a crash of its machine does.
    ///
    /// # Errors
    ///
    /// It does not run.
    pub async fn kill(&self, node: usize) -> Result<(), CrashError> {
        self.supervisor.order(format!("kill {node}")).await
    }

    /// Starts a killed node again: its Patroni makes it a standby.
    ///
    /// # Errors
    ///
    /// It cannot be started.
    pub async fn start_again(&self, node: usize) -> Result<(), CrashError> {
        self.supervisor.order(format!("start {node}")).await
    }

    /// Stops all processes of a node, which is cut off from everything then: connections to it can be made, and are silent.
    ///
    /// # Errors
    ///
    /// It does not run.
    pub async fn freeze(&self, node: usize) -> Result<(), CrashError> {
        self.supervisor.order(format!("freeze {node}")).await
    }

    /// Stops the Patroni of a node, and not its server, which goes on as an unfenced primary.
    ///
    /// # Errors
    ///
    /// It does not run.
    pub async fn hang(&self, node: usize) -> Result<(), CrashError> {
        self.supervisor.order(format!("hang {node}")).await
    }

    /// Lets a [frozen](Self::freeze) or [hung](Self::hang) node go on where it was, until its Patroni notices.
    ///
    /// # Errors
    ///
    /// It is not frozen.
    pub async fn thaw(&self, node: usize) -> Result<(), CrashError> {
        self.supervisor.order(format!("thaw {node}")).await
    }

    /// Stops the standbys from receiving anything from the primary, until [`lose`](Self::lose).
    ///
    /// # Errors
    ///
    /// No standby receives anything.
    pub async fn stall(&self) -> Result<(), CrashError> {
        self.supervisor.order("stall").await
    }

    /// Ends the connections of [stalled](Self::stall) standbys to the primary. What they were sent meanwhile is lost to them, unless it is
    /// still there when they connect again.
    ///
    /// # Errors
    ///
    /// No standby was stalled.
    pub async fn lose(&self) -> Result<(), CrashError> {
        self.supervisor.order("lose").await
    }

    /// Kills each node whose server does not answer, and starts it again, as an operator does. A Patroni that knows no primary at the
    /// moment when it starts its server may leave that server without one for good.
    ///
    /// # Errors
    ///
    /// One of them does not run, or cannot be started.
    pub async fn restart_stuck(&self) -> Result<(), CrashError> {
        for (node, (_, patroni)) in self.configuration.nodes.iter().enumerate() {
            if http::get(*patroni, "/health", ANSWER).await.ok() != Some(200) {
                self.kill(node).await?;
                self.start_again(node).await?;
            }
        }
        Ok(())
    }

    /// Makes a standby the primary in place of this node, in good order.
    ///
    /// # Errors
    ///
    /// The node is not the primary, or no standby can take over.
    pub async fn switch_over(&self, from: usize) -> Result<(), CrashError> {
        let order = format!("{{\"leader\": \"node{from}\"}}");
        let (_, patroni) = self.configuration.nodes[from];
        match http::post(patroni, "/switchover", &order, SWITCHOVER).await {
            Ok((200, _)) => Ok(()),
            Ok((status, said)) => Err(CrashError(format!("Patroni refuses a switchover ({status}): {said}").into())),
            Err(error) => Err(CrashError(error.into())),
        }
    }

    /// Returns the last lines of the logs if etcd or HAProxy has ended by itself, and everything with it; `None` while they run.
    pub fn ended(&self) -> Option<String> {
        self.supervisor.last_words()
    }
}

/// Keeps the password out of logs.
impl fmt::Debug for Patroni {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Patroni").field("nodes", &self.configuration.nodes).finish_non_exhaustive()
    }
}

/// The programs of Debian's packages.
struct Programs {
    etcd: PathBuf,
    haproxy: PathBuf,
    patroni: PathBuf,
}

impl Programs {
    fn find() -> Result<Self, String> {
        Account::for_servers().map_err(|cause| cause.to_string())?;
        Ok(Self {
            etcd: program::find("etcd")?,
            haproxy: program::find("haproxy")?,
            patroni: program::find("patroni")?,
        })
    }
}

async fn start(replication: Replication) -> Result<Patroni, Cause> {
    let programs = Programs::find()?;
    let binaries = Binaries::find()?;
    let account = Account::for_servers()?;
    // All at once, so that they differ.
    let mut ports = port::several(3 + 2 * NODES)?.into_iter();
    let mut next = || ports.next().unwrap_or_default();
    let configuration = Configuration {
        etcd: next(),
        etcd_peer: next(),
        front: next(),
        nodes: (0..NODES).map(|_| (next(), next())).collect(),
        password: Uuid::new_v4().simple().to_string(),
        replication,
    };
    let arguments = arguments(&programs, &configuration);
    let mut supervisor = Supervisor::spawn(SCRIPT, arguments, account.as_ref())?;
    let told = tell(&mut supervisor, &configuration, &binaries);
    let supervisor = Ordered::new(supervisor);
    let patroni = Patroni { configuration, supervisor };
    let started = async {
        told?;
        run(&patroni).await
    };
    match started.await {
        Ok(()) => Ok(patroni),
        Err(cause) => {
            let log = patroni.supervisor.end().await;
            Err(format!("Patroni did not start: {cause}; the last of the logs:\n{log}").into())
        }
    }
}

fn arguments(programs: &Programs, configuration: &Configuration) -> Vec<OsString> {
    let name = format!("scratch-patroni-{}", Uuid::new_v4().simple());
    let Programs { etcd, haproxy, patroni } = programs;
    let mut arguments: Vec<OsString> = vec![name.into(), etcd.into(), patroni.into(), haproxy.into()];
    arguments.push(NODES.to_string().into());
    arguments.extend(supervisor::places(true));
    arguments.extend(configuration.of_etcd().into_iter().map(OsString::from));
    arguments
}

/// Sends the script its files.
fn tell(supervisor: &mut Supervisor, configuration: &Configuration, binaries: &Binaries) -> Result<(), Cause> {
    let of_node = |node| (format!("node{node}.yml"), configuration.of_node(node, &binaries.directory));
    for (path, text) in (0..NODES).map(of_node).chain([("haproxy.cfg".to_owned(), configuration.of_front())]) {
        supervisor.tell(&format!("file {path} {}", text.lines().count()))?;
        supervisor.tell(text.trim_end_matches('\n'))?;
    }
    Ok(supervisor.tell("ready")?)
}

/// Starts all programs, and waits until all servers run.
async fn run(patroni: &Patroni) -> Result<(), Cause> {
    let Configuration { etcd, .. } = patroni.configuration;
    let answers = || async move { http::get(etcd, "/health", ANSWER).await.ok() == Some(200) };
    until(ETCD, patroni, "etcd does not answer", answers).await?;
    for node in 0..NODES {
        patroni.supervisor.order(format!("start {node}")).await?;
    }
    patroni.supervisor.order("front").await?;
    until(START, patroni, "the servers do not run", || patroni.is_whole()).await?;
    let url = patroni.url_of(&[patroni.front()]);
    connection::answers(&url, START, || patroni.supervisor.has_ended()).await.map(drop)
}

/// Waits until a condition is true.
async fn until<F: Future<Output = bool>>(
    limit: Duration,
    patroni: &Patroni,
    otherwise: &str,
    condition: impl Fn() -> F,
) -> Result<(), Cause> {
    let begun = Instant::now();
    while !condition().await {
        if patroni.supervisor.has_ended() {
            return Err("it ended".into());
        }
        if begun.elapsed() > limit {
            return Err(format!("{otherwise} within {limit:?}").into());
        }
        time::sleep(PAUSE).await;
    }
    Ok(())
}

async fn primary(nodes: &[(u16, u16)]) -> Option<usize> {
    for (node, (_, patroni)) in nodes.iter().enumerate() {
        if http::get(*patroni, "/primary", ANSWER).await.ok() == Some(200) {
            return Some(node);
        }
    }
    None
}

/// Whether this many standbys follow the primary.
async fn has_standbys(configuration: &Configuration, number: usize) -> bool {
    let Configuration { nodes, password, replication, .. } = configuration;
    if primary(nodes).await.is_none() {
        return false;
    }
    let mut synchronous = 0;
    for (_, patroni) in nodes {
        // As soon as Patroni says so, the standby may be promoted.
        synchronous += usize::from(http::get(*patroni, "/synchronous", ANSWER).await.ok() == Some(200));
    }
    let servers: Vec<_> = nodes.iter().map(|(server, _)| SocketAddr::from(([127, 0, 0, 1], *server))).collect();
    let followers = async {
        let client = connection::connect(&url_of(password, &servers)).await?;
        let count =
            "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND application_name LIKE 'node%'";
        Ok::<i64, Cause>(client.query_typed_one(count, &[]).await?.try_get(0)?)
    };
    let follow = followers.await.is_ok_and(|followers| usize::try_from(followers).is_ok_and(|it| it >= number));
    follow && (*replication == Replication::Asynchronous || synchronous > 0)
}

fn url_of(password: &str, addresses: &[SocketAddr]) -> String {
    let hosts: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
    let mut config = Config::new();
    config.user("postgres").password(password).dbname("postgres");
    url::to_primary(&config, &hosts)
}
