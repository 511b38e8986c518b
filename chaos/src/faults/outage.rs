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
};

/// While the database is away, a server gets this many calls at each interval: there may be no other ones just then.
const CALLS: usize = 4;
const INTERVAL: Duration = Duration::from_millis(100);

/// Kills the database, and starts it again. Calls go on meanwhile.
pub(super) async fn crash(stage: &Stage, down: Duration) -> Result<(), Error> {
    let begun = stage.journal.now();
    let mut crashing = pin!(stage.database.crash(down));
    let mut ticks = time::interval(INTERVAL);
    let mut calls = Vec::new();
    loop {
        tokio::select! {
            crashed = &mut crashing => break crashed?,
            _ = ticks.tick() => calls.push(burst(stage, CALLS)),
        }
    }
    for mut calls in calls {
        while calls.join_next().await.is_some() {}
    }
    stage.journal.fault(FaultKind::DatabaseKilled, Whom::All, begun);
    Ok(())
}

/// Cuts one or all of a server's connections to the database, at a moment to come.
pub(super) fn cut_later(stage: &Stage, slot: usize, cut: Cut) {
    let Some(proxy) = stage.proxies.get(slot) else { return };
    let journal = Arc::clone(&stage.journal);
    proxy.cut_later(cut, move || journal.fault(cut.into(), Whom::Slot(slot), journal.now()));
}

/// Makes a server's connections to the database silent, and cuts them after a while, as keepalives do. They cannot do it
/// here, because the proxy answers them. New connections work all the time.
pub(super) async fn silence(stage: &Stage, slot: usize, hold: Duration) {
    let Some(proxy) = stage.proxies.get(slot) else { return };
    let begun = stage.journal.now();
    proxy.silence_connections();
    time::sleep(hold).await;
    proxy.cut_silent_connections();
    stage.journal.fault(FaultKind::ConnectionsSilenced, Whom::Slot(slot), begun);
}

/// Makes a server's connections to the database unusable for a while.
pub(super) async fn stall(stage: &Stage, slot: usize, stall: Stall) {
    let Some(proxy) = stage.proxies.get(slot) else { return };
    let begun = stage.journal.now();
    match stall.manner {
        Manner::Held | Manner::HeldAndCut => proxy.hold(),
        Manner::Late(delay) => proxy.delay_answers(delay),
    }
    time::sleep(stall.hold).await;
    match stall.manner {
        Manner::Held => proxy.release(),
        Manner::HeldAndCut => {
            proxy.cut_connections();
            proxy.release();
        }
        Manner::Late(_) => proxy.delay_answers(Duration::ZERO),
    }
    stage.journal.fault(FaultKind::DatabaseStalled, Whom::Slot(slot), begun);
}
