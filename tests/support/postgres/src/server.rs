//! A server, from any source.

use std::{fmt, path::Path, thread};

use tokio::sync::oneshot;

use crate::{
    CrashError, Source, StartError, background,
    binaries::Binaries,
    connection,
    container::{self, Container},
    error::{Cause, chain},
    installed,
    settings::Durability,
    supervisor::Supervisor,
    url,
};

/// A PostgreSQL server. A private one is removed with all its files when this is dropped, and when the process ends.
///
/// It does not depend on the caller's runtime, so it can be shared between tests, and live in a `static`.
pub struct Server {
    description: String,
    keeper: Option<Keeper>,
    source: Source,
    url: String,
}

impl Server {
    /// Starts a server from the first of `sources` that works. Takes at most about 120 s, plus the time to pull a
    /// missing image.
    ///
    /// # Errors
    ///
    /// No source works. The text lists the ways to get a server, and why each source that was tried failed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the server is removed once it has started.
    pub async fn start(sources: &[Source]) -> Result<Self, StartError> {
        Self::start_in_background(sources, Durability::Nothing, &[]).await
    }

    /// Does the same as [`start`](Self::start), but a private server keeps committed data when it is
    /// [killed](Self::kill): commits are synchronous. They are not flushed to the disk, so a crash of the machine may
    /// lose everything.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub async fn start_durable(sources: &[Source]) -> Result<Self, StartError> {
        Self::start_in_background(sources, Durability::Commits, &[]).await
    }

    /// Does the same as [`start`](Self::start), but configures a private server for benchmarks: PostgreSQL's defaults,
    /// so that each commit is flushed to the disk, and 512 MB of shared buffers.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub async fn start_as_deployed(sources: &[Source]) -> Result<Self, StartError> {
        Self::start_in_background(sources, Durability::Disk, &[]).await
    }

    /// Does the same as [`start_durable`](Self::start_durable), only from installed binaries, with further settings: each is
    /// `name=value`.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start), also for a setting that the server does not know.
    pub async fn start_durable_with(settings: &[&str]) -> Result<Self, StartError> {
        Self::start_in_background(&[Source::Installed], Durability::Commits, settings).await
    }

    /// Kills every process of the server, as `kill -9` does, and waits until they are gone. All connections are lost.
    /// If the server was [started as durable](Self::start_durable), committed data is there again after
    /// [`restart`](Self::restart). Takes at most a few seconds.
    ///
    /// # Errors
    ///
    /// The server does not come from installed binaries, it is not running, or there is no program `ps` to find its
    /// processes.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped while the server is being killed, the server is removed.
    pub async fn kill(&mut self) -> Result<(), CrashError> {
        let mut supervisor = self.supervisor()?;
        let killing = background::runtime().spawn_blocking(move || (installed::kill(&mut supervisor), supervisor));
        let (killed, supervisor) = killing.await.expect("killing a server does not panic");
        self.keeper = Some(Keeper::Installed(supervisor));
        killed.map_err(CrashError)
    }

    /// Starts a [killed](Self::kill) server again, with its data and the same [URL](Self::url), and waits until it
    /// answers, at most 120 s.
    ///
    /// # Errors
    ///
    /// The server does not come from installed binaries, or it does not start.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped while the server is being started, the server is removed.
    pub async fn restart(&mut self) -> Result<(), CrashError> {
        self.started_again().await.map(|_version| ())
    }

    /// Stops the server, upgrades its data with the `pg_upgrade` in the directory `to`, and starts the server from the binaries there, with
    /// the same [URL](Self::url). All connections are lost. Takes some seconds. The old binaries need `pg_controldata` and
    /// `pg_resetwal` beside `initdb`, `pg_ctl` and `postgres`.
    ///
    /// # Errors
    ///
    /// The server does not come from binaries, it is not running, `pg_upgrade` fails, or the new server does not start. The server is
    /// not running then.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped during the upgrade, the server is removed.
    pub async fn upgrade(&mut self, to: &Path) -> Result<(), CrashError> {
        let mut supervisor = self.supervisor()?;
        let directory = to.to_owned();
        let upgrading =
            background::runtime().spawn_blocking(move || (installed::upgrade(&mut supervisor, &directory), supervisor));
        let (upgraded, supervisor) = upgrading.await.expect("upgrading a server does not panic");
        self.keeper = Some(Keeper::Installed(supervisor));
        upgraded.map_err(CrashError)?;
        let version = self.started_again().await?;
        self.description = format!("PostgreSQL {version} from {}, upgraded, private, removed at exit", to.display());
        Ok(())
    }

    /// The URL. For a private server it is `postgres://…` with a superuser and the database `postgres`; for a server
    /// that was running already, it is the given one.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// One line for people, such as `PostgreSQL 15.18 from /usr/lib/postgresql/15/bin, private, removed at exit`. Does
    /// not include the password.
    pub fn describe(&self) -> &str {
        &self.description
    }

    /// The source that the server comes from.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Stops and removes a private server, and waits until it is gone. Leaves other servers running.
    pub async fn stop(mut self) {
        if let Some(keeper) = self.keeper.take() {
            let ending = background::runtime().spawn_blocking(|| keeper.end());
            // Does not fail: the task does not panic and is not aborted.
            let _ = ending.await;
        }
    }

    /// Takes the supervisor of the server out of `keeper`; put it back afterwards.
    fn supervisor(&mut self) -> Result<Supervisor, CrashError> {
        match self.keeper.take() {
            Some(Keeper::Installed(supervisor)) => Ok(supervisor),
            other => {
                self.keeper = other;
                Err(CrashError("only a server from installed binaries can be killed, restarted or upgraded".into()))
            }
        }
    }

    /// Starts the server again, unless it runs, and returns its version.
    async fn started_again(&mut self) -> Result<String, CrashError> {
        let mut supervisor = self.supervisor()?;
        let url = self.url.clone();
        let starting =
            background::runtime().spawn(async move { (installed::restart(&mut supervisor, &url).await, supervisor) });
        let (started, supervisor) = starting.await.expect("starting a server does not panic");
        self.keeper = Some(Keeper::Installed(supervisor));
        started.map_err(CrashError)
    }

    /// The settings are only for installed binaries.
    async fn start_in_background(
        sources: &[Source],
        durability: Durability,
        settings: &[&str],
    ) -> Result<Self, StartError> {
        let sources = sources.to_vec();
        let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
        let (give, take) = oneshot::channel();
        background::runtime().spawn(async move {
            if let Err(Ok(unwanted)) = give.send(Self::first_of(&sources, durability, &settings).await) {
                unwanted.stop().await;
            }
        });
        take.await.expect("starting a server does not panic")
    }

    async fn first_of(sources: &[Source], durability: Durability, settings: &[String]) -> Result<Self, StartError> {
        let mut attempts = Vec::new();
        for source in sources {
            match Self::from(source, durability, settings).await {
                Ok(server) => return Ok(server),
                Err(cause) => attempts.push((source.clone(), cause)),
            }
        }
        Err(StartError::new(attempts))
    }

    async fn from(source: &Source, durability: Durability, settings: &[String]) -> Result<Self, Cause> {
        let started = match source {
            Source::Binaries(directory) => {
                let binaries = Binaries::at(directory.clone())?;
                installed::start(&binaries, durability, settings).await?.map(Keeper::Installed)
            }
            Source::Container => {
                container::start(durability).await?.map(|container| Keeper::Container(Box::new(container)))
            }
            Source::Installed => {
                installed::start(&Binaries::find()?, durability, settings).await?.map(Keeper::Installed)
            }
            Source::Url(url) => given(url).await?,
        };
        Ok(Self {
            description: format!("PostgreSQL {} {}, {}", started.version, started.origin, started.removal),
            keeper: started.keeper,
            source: source.clone(),
            url: started.url,
        })
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("description", &self.description)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper.take() {
            // Uses a new thread: the current one may belong to a runtime, and must not block on another runtime.
            let _ = thread::spawn(|| keeper.end()).join();
        }
    }
}

/// A server that answers, and its keeper.
pub(crate) struct Started<K> {
    pub(crate) keeper: K,
    /// Completes the sentence that begins with `PostgreSQL 15.18`.
    pub(crate) origin: String,
    /// The fate of the server; ends that sentence.
    pub(crate) removal: &'static str,
    pub(crate) url: String,
    pub(crate) version: String,
}

impl<K> Started<K> {
    fn map(self, keeper: fn(K) -> Keeper) -> Started<Option<Keeper>> {
        let Self { keeper: kept, origin, removal, url, version } = self;
        Started { keeper: Some(keeper(kept)), origin, removal, url, version }
    }
}

/// The owner of a private server's processes.
#[derive(Debug)]
enum Keeper {
    Container(Box<Container>),
    Installed(Supervisor),
}

impl Keeper {
    /// Blocks the thread until the server is gone.
    fn end(self) {
        match self {
            Self::Container(container) => container.end(),
            Self::Installed(supervisor) => drop(supervisor),
        }
    }
}

/// Checks that the server at `url` answers.
async fn given(url: &str) -> Result<Started<Option<Keeper>>, Cause> {
    let place = url::place(url);
    let version = connection::version(url).await;
    let version = version.map_err(|cause| format!("{place} cannot be reached: {}", chain(cause.as_ref())))?;
    let (origin, removal, url) = (format!("at {place}"), "left as it is", url.to_owned());
    Ok(Started { keeper: None, origin, removal, url, version })
}
