//! Faults of the database and of the connections to it.

use std::{sync::Arc, time::Duration};

use tcp_proxy::{Cut, Proxy};
use tokio::time;

use super::stage::Stage;
use crate::{
    error::Error,
    fault::{BouncerFault, FaultKind},
    journal::Whom,
    schedule::PlannedFault,
    topology::TERMINATE,
};

/// Cuts one or all of a server's connections to the database, at a moment to come; or of PgBouncer's, if it is a fault of those.
pub(super) fn cut_later(stage: &Stage, slot: usize, kind: FaultKind, cut: Cut) {
    let whom = if matches!(kind, FaultKind::Bouncer(_)) { Whom::All } else { Whom::Slot(slot) };
    let journal = Arc::clone(&stage.journal);
    let on_cut = move || journal.fault(kind, whom, journal.now());
    match (whom, &stage.behind_bouncer, stage.ways.get(slot)) {
        (Whom::All, Some(behind), _) => behind.cut_later(cut, on_cut),
        (Whom::Slot(_), _, Some(way)) => way.cut_later(cut, on_cut),
        _ => {}
    }
}

/// Something that is done to a proxy.
type Deed<'a> = &'a (dyn Fn(&Proxy) + Sync);

/// Makes a server's connections to the database unusable for a while. Silent ones are cut afterwards, as keepalives do. They cannot do it
/// here, because the proxy answers them. New connections work all the time, unless everything is held.
pub(super) async fn on_way(stage: &Stage, fault: &PlannedFault) -> Option<Whom> {
    let way = stage.ways.get(fault.slot)?;
    let answers_late = |proxy: &Proxy| proxy.delay_answers(Duration::from_millis(u64::from(50 + fault.draw / 3 % 350)));
    let (begin, end): (Deed<'_>, &[fn(&Proxy)]) = match (fault.kind, fault.draw % 3) {
        (FaultKind::ConnectionsLate, _) => (&Proxy::stall_connections, &[Proxy::release]),
        (FaultKind::ConnectionsSilenced, _) => (&Proxy::silence_connections, &[Proxy::cut_silent_connections]),
        (_, 0) => (&Proxy::hold, &[Proxy::release]),
        (_, 1) => (&Proxy::hold, &[Proxy::cut_connections, Proxy::release]),
        _ => (&answers_late, &[|proxy| proxy.delay_answers(Duration::ZERO)]),
    };
    way.each(begin);
    time::sleep(fault.hold).await;
    end.iter().for_each(|end| way.each(end));
    Some(Whom::Slot(fault.slot))
}

/// Breaks PgBouncer's connections to the database. Returns when they are broken.
pub(super) async fn behind_bouncer(stage: &Stage, how: BouncerFault, hold: Duration) -> Result<Option<Whom>, Error> {
    let Some(behind) = &stage.behind_bouncer else { return Ok(None) };
    match how {
        BouncerFault::AfterCommit | BouncerFault::BeforeCommit => return Ok(None),
        BouncerFault::Cut => behind.cut_connections(),
        BouncerFault::Silence => {
            behind.silence_connections();
            time::sleep(hold).await;
            behind.cut_silent_connections();
        }
        BouncerFault::Terminate => {
            stage.database.connect().await?.execute(TERMINATE, &[]).await?;
        }
    }
    Ok(Some(Whom::All))
}
