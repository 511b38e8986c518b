//! Lets COMMITs wait for a standby that is not there.

use std::{collections::BTreeMap, time::Duration};

use organization::LOGIN_ROLE;
use tokio::time::{self, Instant};
use tokio_postgres::{Client, types::Type};

use super::{calls::with_calls, locks::POOL, stage::Stage};
use crate::{error::Error, journal::Crowd, mode::Mode};

/// The interval between two counts.
const COUNT: Duration = Duration::from_millis(100);

const SET: &str = "ALTER SYSTEM SET synchronous_standby_names = 'nobody'";
const RESET: &str = "ALTER SYSTEM RESET synchronous_standby_names";
const RELOAD: &str = "SELECT pg_reload_conf()";

/// Selects the processes that serve the servers' pools and have not answered: the ports of their clients, and what they do. One that has may
/// be about to end.
const SERVING: &str = "
    SELECT client_port, concat_ws(' ', state, wait_event, left(regexp_replace(query, '\\s+', ' ', 'g'), 40))
    FROM pg_stat_activity WHERE usename = $1 AND state <> 'idle'";

/// Leaves COMMITs without an answer for this long. Calls go on meanwhile. Notes whether the servers have more processes than they may.
pub(super) async fn happen(stage: &Stage, hold: Duration) -> Result<(), Error> {
    let owner = stage.database.connect().await?;
    let begun = stage.journal.now();
    let starts = stage.journal.entries().starts;
    owner.batch_execute(SET).await?;
    owner.batch_execute(RELOAD).await?;
    let mut most = (0, String::new());
    let counted = with_calls(stage, count(stage, &owner, hold, &mut most)).await;
    owner.batch_execute(RESET).await?;
    owner.batch_execute(RELOAD).await?;
    counted?;
    let mut entries = stage.journal.entries();
    // A process goes on in its COMMIT after its server was killed or its connection cut, and no longer has a place in a pool.
    let cuts = entries.faults.iter().filter(|fault| fault.kind.is_cut() && fault.ended >= begun).count();
    let allowed = processes_of(stage.mode) * (stage.ways.len() + entries.starts - starts + cuts);
    // PgBouncer has processes of its own, and a place for each connection.
    let (processes, what) = most;
    if processes > allowed && stage.behind_bouncer.is_none() {
        entries.crowds.push(Crowd { begun, processes, allowed, what });
    }
    Ok(())
}

/// Returns the most processes of PostgreSQL that one server may have: for its pool, for that of its handlers in reserved mode, and one that
/// looks up the outcome of others.
fn processes_of(mode: Mode) -> usize {
    match mode {
        Mode::Reserved => 2 * POOL + 1,
        Mode::Transactional => POOL + 1,
    }
}

/// Finds the largest number of processes, and their activity.
async fn count(stage: &Stage, owner: &Client, hold: Duration, most: &mut (usize, String)) -> Result<(), Error> {
    let until = Instant::now() + hold;
    while Instant::now() < until {
        let rows = owner.query_typed(SERVING, &[(&LOGIN_ROLE, Type::NAME)]).await?;
        if rows.len() > most.0 {
            let ports: Vec<_> = stage.ways.iter().map(|way| way.ports()).collect();
            let mut deeds = BTreeMap::<_, usize>::new();
            for row in &rows {
                let (port, deed): (i32, String) = (row.try_get(0)?, row.try_get(1)?);
                let slot = ports.iter().position(|ports| u16::try_from(port).is_ok_and(|port| ports.contains(&port)));
                let slot = slot.map_or_else(|| "nobody".to_owned(), |slot| format!("server {slot}"));
                *deeds.entry(format!("of {slot}: {deed}")).or_default() += 1;
            }
            let deeds: Vec<_> = deeds.iter().map(|(deed, processes)| format!("\n    {processes} {deed}")).collect();
            *most = (rows.len(), deeds.concat());
        }
        time::sleep(COUNT).await;
    }
    Ok(())
}
