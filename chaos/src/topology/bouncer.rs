//! The PgBouncer between the servers and the database.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use scratch_postgres::PgBouncer;
use tcp_proxy::Proxy;
use tokio_postgres::{Client, Config};

use crate::error::Error;

/// The role that the sample's API has, and the one that it logs in as.
const API_ROLE: &str = "organization_api";
const LOGIN: &str = "organization_login";

/// More connections than the slowest calls of one server hold, but few enough that clients share them; and after
/// an outage no long wait for another try.
const SETTINGS: [&str; 2] = ["default_pool_size = 32", "server_login_retry = 0.2"];

/// A PgBouncer in transaction mode, and the proxy between it and the database.
#[derive(Debug)]
pub(super) struct Bouncer {
    address: SocketAddr,
    behind: Arc<Proxy>,
    bouncer: Mutex<PgBouncer>,
    url: String,
}

impl Bouncer {
    /// Starts both in front of the database at `address`. `config` has its superuser's password, which the API's login
    /// gets, too.
    pub(super) async fn start(owner: &Client, config: &Config, address: SocketAddr) -> Result<Self, Error> {
        if let Some(why) = PgBouncer::missing() {
            return Err(format!(
                "`--topology pgbouncer` needs PgBouncer: on Debian and Ubuntu `apt-get install pgbouncer`. {why}"
            )
            .into());
        }
        let password = config.get_password().map(|password| String::from_utf8_lossy(password).into_owned());
        owner.batch_execute(&make_login(password.as_deref())).await?;
        let behind = Arc::new(Proxy::start(address)?);
        let mut upstream = Config::new();
        upstream.host("127.0.0.1").port(behind.address().port()).user(LOGIN);
        upstream.dbname(config.get_dbname().unwrap_or("postgres"));
        if let Some(password) = password {
            upstream.password(password);
        }
        let bouncer = PgBouncer::start_with(&upstream, &SETTINGS).await?;
        let url = bouncer.url().to_owned();
        let port = url.parse::<Config>()?.get_ports().first().copied().ok_or("PgBouncer has no port")?;
        Ok(Self { address: SocketAddr::from(([127, 0, 0, 1], port)), behind, bouncer: Mutex::new(bouncer), url })
    }

    /// The address at which it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The proxy between it and the database.
    pub(super) fn behind(&self) -> &Arc<Proxy> {
        &self.behind
    }

    /// The URL of the API's connections.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// The last lines of its log if it has ended by itself; `None` while it runs.
    pub(super) fn ended(&self) -> Option<String> {
        self.bouncer.lock().unwrap_or_else(PoisonError::into_inner).ended()
    }
}

/// Ends all its sessions.
pub(crate) const TERMINATE: &str =
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'organization_login'";

/// The sample makes the same roles. But here each session begins as the API's role: a `SET ROLE` would stay with whatever
/// server connection it met.
fn make_login(password: Option<&str>) -> String {
    let password = password.map_or("NULL".to_owned(), |password| format!("'{}'", password.replace('\'', "''")));
    format!(
        "CREATE ROLE {API_ROLE} NOLOGIN;
         CREATE ROLE {LOGIN} LOGIN NOINHERIT PASSWORD {password} IN ROLE {API_ROLE};
         ALTER ROLE {LOGIN} SET role = '{API_ROLE}'"
    )
}
