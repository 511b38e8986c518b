//! Many calls at once, and trouble with a statement that they share.

use std::{ops::Range, sync::Arc, time::Duration};

use organization::{ALICE, BOB};
use tcp_proxy::{Cut, Moment};
use tokio::{task::JoinSet, time};
use tokio_postgres::Client;
use tonic::Code;
use uuid::Uuid;

use super::{outage::cut_later, stage::Stage};
use crate::{
    error::Error,
    fault::FaultKind,
    fleet::Backend,
    journal::{Purpose, Whom},
    mode::Mode,
    operation::{Operation, User, Variant},
    outcome::Outcome,
    schedule::Trouble,
};

/// The time that a call waits for its answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often the calls are made, at most, until the fault has happened: the first time they run, then they are replayed.
const ROUNDS: usize = 8;

/// A part of the shared statements that claim, and of the one that looks for a record, which calls in transactional mode share.
const CLAIMS: &str = "idempotency_write_many(";
const LOOKS: &str = "idempotency_look(";

/// Inserts rows as a foreign client does, and does not commit them.
const INSERT: &str = "INSERT INTO tenant.idempotency_keys (idempotency_key, user_id, procedure, request_hash, expires)
    SELECT key, owner, '/chaos', ''::bytea, pg_catalog.now() + interval '1 hour' FROM unnest($1::uuid[], $2::uuid[]) AS k (key, owner)";

/// Selects whether a shared statement waits for a lock.
const WAITS: &str =
    r"SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%\_many(%')";

/// How long, at most, a shared statement is waited for, and the interval between two looks: it does not wait for long.
const HOLD: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(3);

/// One of this many keys is inserted by the foreign client.
const LOCKED: usize = 8;

/// The name of the constraint that refuses a key.
const CONSTRAINT: &str = "chaos_refuses";

/// The most attempts to lock the table: a paused server may hold a conflicting lock for a lease.
const ATTEMPTS: usize = 60;

/// Calls a server for all of the operations at once, several times, with this trouble.
///
/// # Errors
///
/// The database cannot be made as it was.
pub(super) async fn happen(stage: &Stage, how: Trouble, operations: Range<u32>) -> Result<(), Error> {
    let backend = Arc::new(stage.rotation.first().await.apart());
    let operations: Vec<Operation> =
        operations.filter_map(|number| stage.operations.get(number as usize)).cloned().collect();
    let crowd = Crowd { stage, backend, operations };
    match how {
        Trouble::CutAfter => crowd.is_cut(Moment::AfterStatement).await,
        Trouble::CutBefore => crowd.is_cut(Moment::BeforeStatement).await,
        Trouble::Locked => return crowd.is_locked().await,
        Trouble::Refused => return crowd.is_refused().await,
    }
    Ok(())
}

/// Many calls of one server.
struct Crowd<'a> {
    stage: &'a Stage,
    backend: Arc<Backend>,
    operations: Vec<Operation>,
}

impl Crowd<'_> {
    /// The next connection with a shared statement is cut.
    async fn is_cut(&self, moment: fn(&'static str) -> Moment) {
        let part = match self.stage.mode {
            Mode::Reserved => CLAIMS,
            Mode::Transactional => {
                // Only where calls are replayed are looks expected to say something.
                self.call().await;
                LOOKS
            }
        };
        let cut = Cut { all: false, moment: moment(part) };
        let happened = |stage: &Stage| stage.journal.entries().faults.iter().filter(|it| it.kind == cut.into()).count();
        let before = happened(self.stage);
        cut_later(self.stage, self.backend.server().slot, cut);
        for _ in 0..ROUNDS {
            self.call().await;
            if happened(self.stage) > before {
                break;
            }
        }
    }

    /// The fault counts only if a shared statement has waited.
    async fn is_locked(&self) -> Result<(), Error> {
        let begun = self.stage.journal.now();
        let (mut foreign, witness) = (self.stage.database.connect().await?, self.stage.database.connect().await?);
        let locked = self.operations.iter().step_by(LOCKED);
        let (keys, owners): (Vec<Uuid>, Vec<Uuid>) = locked.map(|operation| (operation.key, owner(operation))).unzip();
        let transaction = foreign.transaction().await?;
        transaction.execute(INSERT, &[&keys, &owners]).await?;
        let mut calls = self.calls();
        let until = time::Instant::now() + HOLD;
        let mut waited = false;
        while !waited && time::Instant::now() < until {
            waited = witness.query_one(WAITS, &[]).await?.try_get(0)?;
            time::sleep(LOOK).await;
        }
        transaction.rollback().await?;
        while calls.join_next().await.is_some() {}
        if waited {
            self.stage.journal.fault(FaultKind::BatchBlocked, Whom::Server(self.backend.server()), begun);
        }
        self.call().await;
        Ok(())
    }

    /// The fault counts only if the call was refused. None of the others may be.
    async fn is_refused(&self) -> Result<(), Error> {
        let Some(operation) = self.operations.get(self.operations.len() / 2) else { return Ok(()) };
        let (begun, owner) = (self.stage.journal.now(), self.stage.database.connect().await?);
        self.stage.journal.entries().refused_rows.insert(operation.number);
        let key = operation.key;
        alter(&owner, &format!("ADD CONSTRAINT {CONSTRAINT} CHECK (idempotency_key <> '{key}') NOT VALID")).await?;
        let refused = self.call().await.contains(&operation.number);
        // The table may be moved meanwhile, to one that has the constraint or has not.
        alter(&owner, &format!("DROP CONSTRAINT IF EXISTS {CONSTRAINT}")).await?;
        owner
            .batch_execute(&format!(
                "ALTER TABLE IF EXISTS tenant.idempotency_keys_next DROP CONSTRAINT IF EXISTS {CONSTRAINT}"
            ))
            .await?;
        if refused {
            self.stage.journal.fault(FaultKind::RowRefused, Whom::Server(self.backend.server()), begun);
        }
        self.call().await;
        Ok(())
    }

    /// Makes all calls at once, and waits for their ends. Returns the operations that the server refused as its own fault.
    async fn call(&self) -> Vec<u32> {
        let mut calls = self.calls();
        let mut refused = Vec::new();
        while let Some(ended) = calls.join_next().await {
            refused.extend(ended.ok().flatten());
        }
        refused
    }

    fn calls(&self) -> JoinSet<Option<u32>> {
        let mut calls = JoinSet::new();
        for operation in self.operations.iter().cloned() {
            let (backend, journal) = (Arc::clone(&self.backend), Arc::clone(&self.stage.journal));
            calls.spawn(async move {
                let running = journal.begin(operation.number, Variant::Asked, Purpose::Crowd, backend.server());
                let outcome = backend.call(&operation, Variant::Asked, PATIENCE).await;
                let refused = matches!(&outcome, Outcome::Failed(it) if it.answered && it.code == Code::Internal);
                journal.end(running, outcome);
                refused.then_some(operation.number)
            });
        }
        calls
    }
}

/// The owner of an operation's record.
fn owner(operation: &Operation) -> Uuid {
    match operation.user {
        User::Alice => ALICE,
        User::Bob => BOB,
    }
}

/// Alters the table of keys. Gives a try up after a second: other statements would queue behind it.
async fn alter(owner: &Client, how: &str) -> Result<(), Error> {
    owner.batch_execute("SET lock_timeout = '1s'").await?;
    let mut tries = 1;
    loop {
        match owner.batch_execute(&format!("ALTER TABLE tenant.idempotency_keys {how}")).await {
            Err(_) if tries < ATTEMPTS => tries += 1,
            altered => return Ok(altered?),
        }
    }
}
