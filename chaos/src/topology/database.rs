//! The database of a run: starts the topology, prepares the schema, and connects the harness to it.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tcp_proxy::Proxy;
use tokio::time::{self, Instant};
use tokio_postgres::{Client, Config, NoTls};
use tonic_idempotency::{migrations, store::Schema};

use super::{bouncer::Bouncer, patroni::Patroni, redis_cluster::RedisCluster, single::Single};
use crate::{args::Args, choice::Topology, error::Error, urls::Urls};

/// The time that a connection of the harness itself may take, and how long it is tried for: a failover takes a while.
const CONNECT: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(60);

/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(100);

/// The interval between two looks whether everything runs.
const LOOK: Duration = Duration::from_millis(250);

/// Makes SERIALIZABLE the default isolation level of transactions.
const SERIALIZABLE: &str = "ALTER DATABASE postgres SET default_transaction_isolation = 'serializable'";

/// The harness's own PostgreSQL, and what is in front of it.
#[derive(Debug)]
pub(crate) struct Database {
    bouncer: Option<Bouncer>,
    engine: Engine,
    /// The store of the records, if that is not PostgreSQL.
    redis: Option<RedisCluster>,
    url: String,
}

/// The setup that runs PostgreSQL.
#[derive(Debug)]
enum Engine {
    Patroni(Patroni),
    Single(Single),
}

impl Database {
    /// Starts the topology that was asked for.
    async fn start(args: &Args) -> Result<Self, Error> {
        let engine = match args.topology {
            Topology::Patroni => Engine::Patroni(Patroni::start(args.front, args.replication).await?),
            Topology::Partitioned | Topology::Pgbouncer | Topology::RedisCluster | Topology::Single => {
                Engine::Single(Single::start().await?)
            }
        };
        let url = match &engine {
            Engine::Patroni(patroni) => patroni.url(),
            Engine::Single(single) => single.url.clone(),
        };
        let redis = match args.topology {
            Topology::RedisCluster => Some(RedisCluster::start(args.persistence, args.replicas).await?),
            Topology::Partitioned | Topology::Patroni | Topology::Pgbouncer | Topology::Single => None,
        };
        let mut database = Self { bouncer: None, engine, redis, url };
        let mut owner = database.connect().await?;
        if args.serializable {
            owner.batch_execute(SERIALIZABLE).await?;
        }
        let partitions = args.partitions.filter(|_| !args.moving);
        if partitions.is_some() {
            // Before the servers, whose migrations find nothing to do then.
            organization::migrations::run(&mut owner).await?;
        }
        if let Some(partitions) = partitions {
            migrations::partition(&owner, &Schema::default(), partitions).await?;
        }
        if let (Topology::Pgbouncer, Engine::Single(single)) = (args.topology, &database.engine) {
            let config: Config = single.url.parse()?;
            database.bouncer = Some(Bouncer::start(&owner, &config, single.address).await?);
        }
        Ok(database)
    }

    /// Starts the topology, does something on it, and stops it.
    pub(crate) async fn with<T>(
        args: &Args,
        deed: impl AsyncFnOnce(&Arc<Self>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let database = Arc::new(Self::start(args).await?);
        let ended = tokio::select! {
            ended = deed(&database) => ended,
            error = database.ended() => Err(error),
        };
        if let Some(database) = Arc::into_inner(database) {
            database.stop().await;
        }
        ended
    }

    /// The addresses for the servers' connections, any of which may lead to the primary.
    pub(crate) fn entrances(&self) -> Vec<SocketAddr> {
        match (&self.engine, &self.bouncer) {
            (_, Some(bouncer)) => vec![bouncer.address()],
            (Engine::Patroni(patroni), None) => patroni.entrances(),
            (Engine::Single(single), None) => vec![single.address],
        }
    }

    /// The proxy between PgBouncer and the server.
    pub(crate) fn behind_bouncer(&self) -> Option<&Arc<Proxy>> {
        self.bouncer.as_ref().map(Bouncer::behind)
    }

    /// The one server; `None` if there are several.
    pub(crate) fn single(&self) -> Option<&Single> {
        if let Engine::Single(single) = &self.engine { Some(single) } else { None }
    }

    /// The servers under Patroni; `None` if there are none.
    pub(crate) fn patroni(&self) -> Option<&Patroni> {
        if let Engine::Patroni(patroni) = &self.engine { Some(patroni) } else { None }
    }

    /// The Redis Cluster of the records; `None` if they are in PostgreSQL.
    pub(crate) fn redis(&self) -> Option<&RedisCluster> {
        self.redis.as_ref()
    }

    /// The URLs of a server that sees no fault.
    pub(crate) fn direct_urls(&self) -> Urls {
        Urls { api: None, database: self.url.clone(), redis: self.redis.as_ref().map(RedisCluster::urls) }
    }

    /// The URLs of a server, through proxies of the [entrances](Self::entrances), in their order. Behind PgBouncer these are only the
    /// API's own connections: what a server does at its start, and its worker, go directly to the database, as people configure it. A
    /// Redis Cluster tells its clients the addresses of its servers, so there are no proxies on the way to it.
    pub(crate) fn urls_through(&self, proxies: &[SocketAddr]) -> Urls {
        let through = |url: &str| {
            let ways = self.entrances().into_iter().zip(proxies);
            ways.fold(url.to_owned(), |url, (entrance, proxy)| {
                url.replacen(&entrance.to_string(), &proxy.to_string(), 1)
            })
        };
        let direct = self.direct_urls();
        match (&self.engine, &self.bouncer) {
            (_, Some(bouncer)) => Urls { api: Some(through(bouncer.url())), ..direct },
            (Engine::Patroni(patroni), None) => Urls { database: patroni.url_of(proxies), ..direct },
            (Engine::Single(_), None) => Urls { database: through(&self.url), ..direct },
        }
    }

    /// A statement that any server answers whose records can be claimed: not a standby, nor a primary whose commits wait in vain.
    pub(crate) fn question(&self) -> &'static str {
        match &self.engine {
            Engine::Patroni(_) => "SELECT pg_catalog.pg_logical_emit_message(true, 'chaos', '')",
            Engine::Single(_) => "SELECT 1",
        }
    }

    /// Connects as superuser, not through a proxy.
    pub(crate) async fn connect(&self) -> Result<Client, Error> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let why: Error = match time::timeout(CONNECT, tokio_postgres::connect(&self.url, NoTls)).await {
                Ok(Ok((client, connection))) => {
                    // The task ends with the client.
                    tokio::spawn(connection);
                    return Ok(client);
                }
                Ok(Err(error)) => error.into(),
                Err(_) => "the database does not answer".into(),
            };
            if Instant::now() > deadline || self.single().is_some() {
                return Err(why);
            }
            time::sleep(PAUSE).await;
        }
    }

    /// Waits until all servers are there again.
    pub(crate) async fn is_whole(&self) -> Result<(), Error> {
        if let Some(redis) = &self.redis {
            redis.is_whole().await?;
        }
        match &self.engine {
            Engine::Patroni(patroni) => patroni.is_whole().await,
            Engine::Single(_) => Ok(()),
        }
    }

    /// Returns the reason if a program in front of the servers ends by itself, without which no call could be answered; otherwise never
    /// returns.
    async fn ended(&self) -> Error {
        loop {
            if let Some(log) = self.bouncer.as_ref().and_then(Bouncer::ended) {
                return format!("PgBouncer has ended by itself; the last of its log:\n{log}").into();
            }
            if let Some(log) = self.patroni().and_then(Patroni::ended) {
                return format!("etcd or HAProxy has ended by itself; the last of the logs:\n{log}").into();
            }
            time::sleep(LOOK).await;
        }
    }

    /// Stops all servers, and waits until all of it is gone.
    async fn stop(self) {
        drop(self.bouncer);
        if let Some(redis) = self.redis {
            redis.stop().await;
        }
        match self.engine {
            Engine::Patroni(patroni) => patroni.stop().await,
            Engine::Single(single) => single.stop().await,
        }
    }
}
