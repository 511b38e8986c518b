//! Breaks PgBouncer's connections to the database.

use std::{sync::Arc, time::Duration};

use tcp_proxy::{Cut, Moment};
use tokio::time;

use super::stage::Stage;
use crate::{error::Error, fault::FaultKind, journal::Whom, schedule::Break, topology::TERMINATE};

/// Breaks the connections. Returns when they are broken.
pub(super) async fn break_connections(stage: &Stage, how: Break, hold: Duration) -> Result<(), Error> {
    let Some(behind) = &stage.behind_bouncer else { return Ok(()) };
    let begun = stage.journal.now();
    let kind = match how {
        Break::Cut => {
            behind.cut_connections();
            FaultKind::BouncerCut
        }
        Break::Silence => {
            behind.silence_connections();
            time::sleep(hold).await;
            behind.cut_silent_connections();
            FaultKind::BouncerSilenced
        }
        Break::Terminate => {
            stage.database.connect().await?.execute(TERMINATE, &[]).await?;
            FaultKind::BouncerTerminated
        }
    };
    stage.journal.fault(kind, Whom::All, begun);
    Ok(())
}

/// Cuts the connection that carries the next COMMIT.
pub(super) fn cut_at_commit(stage: &Stage, moment: Moment) {
    let Some(behind) = &stage.behind_bouncer else { return };
    let (cut, journal) = (Cut { all: false, moment }, Arc::clone(&stage.journal));
    behind.cut_later(cut, move || journal.fault(FaultKind::from(cut).behind_bouncer(), Whom::All, journal.now()));
}
