//! Moves the table of keys to partitions while everything fails, the move itself included.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{task::JoinSet, time};
use tokio_postgres::{Client, error::SqlState};
use tokio_util::task::AbortOnDropHandle;
use tonic_idempotency::{migrations, store::Schema};

use crate::{
    error::Error,
    fault::{FaultKind, MoverFault},
    journal::{Journal, Whom},
    pace::Pace,
    topology::Database,
};

/// The pause after an interruption, and how many there may be.
const PAUSE: Duration = Duration::from_millis(200);
const INTERRUPTIONS: u32 = 1_000;

/// The operations of a run for each row of a batch, and how long the mover rests, in batches: a move takes half a minute, whatever the run.
const OPERATIONS: u32 = 200;
const REST: u32 = 50;

/// How long a fault at the switch waits for one. Then it happens all the same, usually after the switch.
const PATIENCE: Duration = Duration::from_secs(20);

/// The intervals between two looks at the move: before its end, and near the switch, which takes some milliseconds.
const LOOK: Duration = Duration::from_millis(50);
const NEAR_LOOK: Duration = Duration::from_millis(3);

/// The attempts to take the move back. Each gives up when it has waited for a lock for 500 ms.
const ATTEMPTS: u32 = 20;

/// Selects whether the changes of the last comparison are noted, and whether a mover has asked then for the lock of the switch.
const NEAR: &str = "
    SELECT EXISTS (SELECT FROM pg_trigger WHERE tgname = 'idempotency_mirror_changes'),
           EXISTS (SELECT FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
                   WHERE l.mode = 'AccessExclusiveLock' AND l.relation = to_regclass('tenant.idempotency_keys')
                     AND a.query LIKE 'CALL tenant.idempotency_move_to_partitions%')";

/// Ends the sessions of all movers, and selects their number.
const KILL: &str = "
    SELECT count(*) FILTER (WHERE pg_terminate_backend(a.pid))
    FROM pg_stat_activity a WHERE a.query LIKE 'CALL tenant.idempotency_move_to_partitions%'";

/// Selects whether there is a move to take back.
const MOVES: &str = "SELECT to_regclass('tenant.idempotency_keys_next') IS NOT NULL";

const STOP: &str = "SELECT tenant.idempotency_stop_moving()";

/// Whoever keeps the move going: it goes on after each interruption, and begins anew when it was taken back. Ends when dropped.
#[derive(Debug)]
pub(crate) struct Mover {
    keeper: AbortOnDropHandle<Result<u32, Error>>,
    its: Arc<Move>,
}

/// The move, and what happens to it.
#[derive(Debug)]
pub(crate) struct Move {
    call: String,
    database: Arc<Database>,
    faults: Mutex<JoinSet<()>>,
    journal: Arc<Journal>,
    /// Faults at the switch take turns.
    turn: tokio::sync::Mutex<()>,
}

impl Mover {
    /// Moves the table to this many partitions, once a tenth of this many operations have begun: there are records to copy then, and
    /// calls to come.
    pub(crate) fn start(
        database: &Arc<Database>,
        journal: &Arc<Journal>,
        pace: &Arc<Pace>,
        partitions: u16,
        operations: u32,
    ) -> Self {
        let batch = (operations / OPERATIONS).max(1);
        let its = Arc::new(Move {
            call: format!(
                "CALL tenant.idempotency_move_to_partitions({partitions}, p_batch => {batch}, p_rest => {REST})"
            ),
            database: Arc::clone(database),
            faults: Mutex::default(),
            journal: Arc::clone(journal),
            turn: tokio::sync::Mutex::default(),
        });
        let (kept, pace) = (Arc::clone(&its), Arc::clone(pace));
        let keeper = AbortOnDropHandle::new(tokio::spawn(async move {
            pace.reached(operations / 10).await;
            let mut interruptions = 0;
            loop {
                match kept.go_on().await {
                    Ok(()) => return Ok(interruptions),
                    Err(_) if interruptions < INTERRUPTIONS => interruptions += 1,
                    Err(error) => return Err(error),
                }
                time::sleep(PAUSE).await;
            }
        }));
        Self { keeper, its }
    }

    /// The move, for faults.
    pub(crate) fn its(&self) -> &Arc<Move> {
        &self.its
    }

    /// Waits for the end of the move, without further faults. Returns how often it was interrupted.
    pub(crate) async fn finish(mut self) -> Result<u32, Error> {
        let mut faults = std::mem::take(&mut *self.its.faults());
        faults.shutdown().await;
        (&mut self.keeper).await?
    }
}

impl Drop for Mover {
    fn drop(&mut self) {
        self.its.faults().abort_all();
    }
}

impl Move {
    /// Lets this happen to the move: at its next switch, or now.
    pub(crate) fn disturb(self: &Arc<Self>, how: MoverFault, at_switch: bool) {
        let its = Arc::clone(self);
        self.faults().spawn(async move {
            // The database may be away just then.
            let _ = its.happen(how, at_switch).await;
        });
    }

    fn faults(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn go_on(&self) -> Result<(), Error> {
        let owner = self.database.connect().await?;
        migrations::partitions(&owner, &Schema::default()).await?;
        Ok(owner.batch_execute(&self.call).await?)
    }

    /// The fault counts only if it has hit a mover or a move.
    async fn happen(&self, how: MoverFault, at_switch: bool) -> Result<(), Error> {
        let _turn = if at_switch { Some(self.turn.lock().await) } else { None };
        if at_switch {
            // It happens after this time, too.
            let _ = time::timeout(PATIENCE, self.switch(how)).await;
        }
        let owner = self.database.connect().await?;
        let begun = self.journal.now();
        let moves: bool = owner.query_one(MOVES, &[]).await?.try_get(0)?;
        match how {
            MoverFault::Another => {
                let moving = owner.batch_execute(&self.call);
                self.note(how, moves, begun);
                return Ok(moving.await?);
            }
            MoverFault::Kill => {
                let killed: i64 = owner.query_one(KILL, &[]).await?.try_get(0)?;
                self.note(how, killed > 0, begun);
                return Ok(());
            }
            MoverFault::Restart | MoverFault::Stop => {}
        }
        let stopped = stop(&owner).await?;
        self.note(how, moves && stopped, begun);
        if how == MoverFault::Restart {
            owner.batch_execute(&self.call).await?;
        }
        Ok(())
    }

    /// Waits until a mover asks for the lock of the switch, to be killed there, or compares the tables before it: nothing is taken back in
    /// the middle of a step.
    async fn switch(&self, how: MoverFault) {
        loop {
            // The database may be away meanwhile.
            if self.reaches(how).await.is_ok() {
                return;
            }
            time::sleep(PAUSE).await;
        }
    }

    async fn reaches(&self, how: MoverFault) -> Result<(), Error> {
        let owner = self.database.connect().await?;
        loop {
            let row = owner.query_one(NEAR, &[]).await?;
            let (is_near, is_there): (bool, bool) = (row.try_get(0)?, row.try_get(1)?);
            if is_near && (is_there || how != MoverFault::Kill) {
                return Ok(());
            }
            time::sleep(if is_near { NEAR_LOOK } else { LOOK }).await;
        }
    }

    fn note(&self, how: MoverFault, happened: bool, begun: Duration) {
        if happened {
            self.journal.fault(FaultKind::Mover(how), Whom::All, begun);
        }
    }
}

/// Takes the move back. Returns `false` if it is too late.
async fn stop(owner: &Client) -> Result<bool, Error> {
    let mut attempts = 1;
    loop {
        match owner.batch_execute(STOP).await {
            Ok(()) => return Ok(true),
            Err(error) if error.code() == Some(&SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE) => return Ok(false),
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) && attempts < ATTEMPTS => attempts += 1,
            Err(error) => return Err(error.into()),
        }
    }
}
