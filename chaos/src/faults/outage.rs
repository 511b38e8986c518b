use std::time::Duration;

use super::director::Stage;
use crate::{error::Error, fault::FaultKind, journal::Whom, schedule::Stall};

/// The database is killed, and comes back.
pub(super) async fn crash(stage: &Stage, down: Duration) -> Result<(), Error> {
    let begun = stage.journal.now();
    stage.database.crash(down).await?;
    stage.journal.fault(FaultKind::DatabaseKilled, Whom::All, begun);
    Ok(())
}

/// A server's connections to the database are unusable for a while.
pub(super) async fn stall(stage: &Stage, slot: usize, stall: Stall) {
    let Some(proxy) = stage.proxies.get(slot) else { return };
    let begun = stage.journal.now();
    proxy.stall(stall).await;
    stage.journal.fault(FaultKind::DatabaseStalled, Whom::Slot(slot), begun);
}
