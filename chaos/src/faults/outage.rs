//! Faults of the database and of the connections to it.

use std::{pin::pin, sync::Arc, time::Duration};

use tcp_proxy::Cut;
use tokio::time;

use super::{burst::burst, stage::Stage};
use crate::{
    error::Error,
    fault::FaultKind,
    journal::Whom,
    schedule::{Manner, Stall},
    topology::{Failover, RedisFault},
};

/// While the database is away, a server gets this many calls at each interval: there may be no other ones just then.
const CALLS: usize = 4;
const INTERVAL: Duration = Duration::from_millis(100);

/// Kills the database, and starts it again. Calls go on meanwhile.
pub(super) async fn crash(stage: &Stage, down: Duration) -> Result<(), Error> {
    let Some(single) = stage.database.single() else { return Ok(()) };
    let begun = stage.journal.now();
    with_calls(stage, single.crash(down)).await?;
    stage.journal.fault(FaultKind::DatabaseKilled, Whom::All, begun);
    Ok(())
}

/// Replaces the primary, when a standby can take over. Calls go on meanwhile.
pub(super) async fn fail_over(stage: &Stage, how: Failover) -> Result<(), Error> {
    let Some(patroni) = stage.database.patroni() else { return Ok(()) };
    patroni.can_fail_over().await?;
    let begun = stage.journal.now();
    with_calls(stage, patroni.fail_over(how)).await?;
    stage.journal.fault(how.into(), Whom::All, begun);
    Ok(())
}

/// Breaks a primary of the Redis Cluster, and waits until each primary has a replica again. Calls go on meanwhile.
pub(super) async fn break_redis(stage: &Stage, slot: u16, how: RedisFault) -> Result<(), Error> {
    let Some(redis) = stage.database.redis() else { return Ok(()) };
    let begun = stage.journal.now();
    let breaking = async {
        redis.break_primary(slot, how).await?;
        redis.is_whole().await
    };
    with_calls(stage, breaking).await?;
    stage.journal.fault(how.into(), Whom::All, begun);
    Ok(())
}

/// Does something to the database, and calls a server all the time.
pub(super) async fn with_calls(stage: &Stage, deed: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
    let mut deed = pin!(deed);
    let mut ticks = time::interval(INTERVAL);
    let mut calls = Vec::new();
    loop {
        tokio::select! {
            done = &mut deed => break done?,
            _ = ticks.tick() => calls.push(burst(stage, CALLS)),
        }
    }
    for mut calls in calls {
        while calls.join_next().await.is_some() {}
    }
    Ok(())
}

/// Cuts one or all of a server's connections to the database, at a moment to come.
pub(super) fn cut_later(stage: &Stage, slot: usize, cut: Cut) {
    let Some(way) = stage.ways.get(slot) else { return };
    let journal = Arc::clone(&stage.journal);
    way.cut_later(cut, move || journal.fault(cut.into(), Whom::Slot(slot), journal.now()));
}

/// Makes a server's connections to the database silent. After a while what was sent arrives, or they are cut, as keepalives do. They
/// cannot do it here, because the proxy answers them. New connections work all the time.
pub(super) async fn silence(stage: &Stage, slot: usize, hold: Duration, arrives: bool) {
    let Some(way) = stage.ways.get(slot) else { return };
    let begun = stage.journal.now();
    let kind = if arrives {
        way.stall_connections();
        time::sleep(hold).await;
        way.release();
        FaultKind::ConnectionsLate
    } else {
        way.silence_connections();
        time::sleep(hold).await;
        way.cut_silent_connections();
        FaultKind::ConnectionsSilenced
    };
    stage.journal.fault(kind, Whom::Slot(slot), begun);
}

/// Makes a server's connections to the database unusable for a while.
pub(super) async fn stall(stage: &Stage, slot: usize, stall: Stall) {
    let Some(way) = stage.ways.get(slot) else { return };
    let begun = stage.journal.now();
    match stall.manner {
        Manner::Held | Manner::HeldAndCut => way.hold(),
        Manner::Late(delay) => way.delay_answers(delay),
    }
    time::sleep(stall.hold).await;
    match stall.manner {
        Manner::Held => way.release(),
        Manner::HeldAndCut => {
            way.cut_connections();
            way.release();
        }
        Manner::Late(_) => way.delay_answers(Duration::ZERO),
    }
    stage.journal.fault(FaultKind::DatabaseStalled, Whom::Slot(slot), begun);
}
