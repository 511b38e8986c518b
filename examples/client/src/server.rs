//! The sample service that the client calls.

use std::{env, fs, net::SocketAddr, path::Path, process::Stdio, time::Duration};

use clap::Parser as _;
use serde::Deserialize;
use tokio::{
    net::lookup_host,
    process::{Child, Command},
    time::{interval, timeout},
};
use uuid::Uuid;

use crate::{Args, Error, directory::Directory, show::Show};

/// How long a sample may take to start: it may have to fetch an image.
const PATIENCE: Duration = Duration::from_secs(300);

/// A sample that runs. One that was started for this client ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) cluster: Uuid,
    pub(crate) token: String,
    _started: Option<Started>,
}

/// The ready file of a sample.
#[derive(Debug, Deserialize)]
struct Ready {
    address: SocketAddr,
    cluster_id: Uuid,
    tokens: Tokens,
}

#[derive(Debug, Deserialize)]
struct Tokens {
    alice: String,
}

impl Server {
    /// The server that the arguments name, or else one that is started.
    pub(crate) async fn of(args: &Args, show: &Show) -> Result<Self, Error> {
        if let (Some(url), Some(token), Some(cluster)) = (&args.server, &args.token, args.cluster) {
            let authority = url.parse::<http::Uri>()?.authority().map(ToString::to_string).unwrap_or_default();
            let address = lookup_host(&authority).await.map_err(|error| format!("--server {url}: {error}"))?.next();
            let address = address.ok_or_else(|| format!("--server {url}: there is no such address"))?;
            return Ok(Self { address, cluster, token: token.clone(), _started: None });
        }
        match &args.ready_file {
            Some(file) => {
                let ready = fs::read(file).map_err(|error| format!("--ready-file {}: {error}", file.display()))?;
                Ok(Self::ready(serde_json::from_slice(&ready)?, None))
            }
            None => {
                show.line("starting the sample and its PostgreSQL server");
                Started::start(args.work).await
            }
        }
    }

    /// The arguments with which another client calls it.
    pub(crate) fn arguments(&self) -> [String; 6] {
        let Self { address, cluster, token, .. } = self;
        [
            "--server".to_owned(),
            format!("http://{address}"),
            "--token".to_owned(),
            token.clone(),
            "--cluster".to_owned(),
            cluster.to_string(),
        ]
    }

    fn ready(ready: Ready, started: Option<Started>) -> Self {
        Self { address: ready.address, cluster: ready.cluster_id, token: ready.tokens.alice, _started: started }
    }
}

/// A sample in a process of its own, which is this program again.
#[derive(Debug)]
struct Started {
    process: Child,
    _directory: Directory,
}

impl Started {
    async fn start(work: Duration) -> Result<Server, Error> {
        let directory = Directory::new("client")?;
        let file = directory.path().join("ready.json");
        let mut command = Command::new(env::current_exe()?);
        command.arg("--be-the-sample").arg(&file).arg("--work").arg(humantime::format_duration(work).to_string());
        // Dropped, it is killed; its PostgreSQL server removes itself then.
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true).spawn()?;
        let mut started = Self { process, _directory: directory };
        let ready =
            timeout(PATIENCE, started.ready(&file)).await.map_err(|_| "the sample has not started in time")??;
        Ok(Server::ready(ready, Some(started)))
    }

    async fn ready(&mut self, file: &Path) -> Result<Ready, Error> {
        let mut looks = interval(Duration::from_millis(50));
        loop {
            looks.tick().await;
            if let Ok(ready) = fs::read(file) {
                return Ok(serde_json::from_slice(&ready)?);
            }
            if let Some(ended) = self.process.try_wait()? {
                return Err(format!("the sample ended before it was ready: {ended}").into());
            }
        }
    }
}

/// Is the sample, until the process is killed.
pub(crate) async fn be_the_sample(ready_file: &Path, work: Duration) -> Result<(), Error> {
    let delay = humantime::format_duration(work).to_string();
    let arguments = ["organization", "--listen", "127.0.0.1:0", "--outbox-delay", &delay, "--ready-file"];
    let arguments = arguments.map(Into::into).into_iter().chain([ready_file.as_os_str().to_owned()]);
    organization::run(organization::Args::try_parse_from(arguments)?).await
}
