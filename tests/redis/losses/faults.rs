//! The faults.

use std::{error::Error, time::Duration};

use scratch_redis::{Cluster, Server};
use tokio::time::{Instant, sleep};
use tonic_idempotency_redis::{
    RedisStore,
    redis::{Client, cluster::ClusterClientBuilder},
};

use crate::{
    Options,
    callers::{Callers, Tally},
    settings::{Fault, Setting},
};

/// How long a primary may be silent, in milliseconds, before it is replaced.
const NODE_TIMEOUT: u32 = 1000;

/// How late a replica is.
const LATE: Duration = Duration::from_millis(300);

/// The calls between two faults.
const CALM: Duration = Duration::from_secs(2);

/// No failover takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts servers, has callers create orders on them, and lets the faults happen.
pub(crate) async fn measure(setting: &Setting, options: &Options) -> Result<Tally, Box<dyn Error>> {
    let lines = setting.configuration();
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    if setting.fault == Fault::Restart {
        let server = Server::start(&lines)?;
        let store = RedisStore::single(Client::open(server.url())?).durability(setting.durability());
        let callers = Callers::start(store, options.callers).await?;
        for _ in 0..options.faults {
            sleep(CALM).await;
            server.kill();
            server.restart()?;
        }
        return Ok(callers.finish().await);
    }
    let cluster = Cluster::start(NODE_TIMEOUT, &lines)?;
    let store = RedisStore::cluster(ClusterClientBuilder::new(cluster.urls()))?.durability(setting.durability());
    let callers = Callers::start(store, options.callers).await?;
    for fault in 0..options.faults {
        sleep(CALM).await;
        // Another third of the slots each time.
        let slot = u16::try_from(fault % 3 * 5500)?;
        let (primary, replica) = cluster.pair(slot).ok_or("the slot has no primary with a replica")?;
        break_primary(setting.fault, primary, replica).await;
        becomes_primary(replica).await?;
        match setting.fault {
            Fault::Pause => primary.resume(),
            _ => primary.restart()?,
        }
        cluster.settle()?;
    }
    Ok(callers.finish().await)
}

async fn break_primary(fault: Fault, primary: &Server, replica: &Server) {
    match fault {
        Fault::Failover => primary.kill(),
        Fault::FailoverToLate => {
            replica.pause();
            sleep(LATE).await;
            primary.kill();
            replica.resume();
        }
        Fault::Pause => primary.pause(),
        Fault::Restart => {}
    }
}

async fn becomes_primary(replica: &Server) -> Result<(), Box<dyn Error>> {
    let began = Instant::now();
    while !replica.ask(&["ROLE"]).starts_with("master") {
        if began.elapsed() > PATIENCE {
            return Err("the replica does not take over".into());
        }
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}
