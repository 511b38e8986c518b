//! Many calls at once, and trouble with a statement that they share.

use std::{ops::Range, sync::Arc, time::Duration};

use organization::{ALICE, BOB};
use tcp_proxy::{Cut, Moment};
use tokio::{task::JoinSet, time};
use tonic::Code;
use uuid::Uuid;

use super::{
    locks::{ATTEMPTS, locked},
    outage::cut_later,
    stage::Stage,
};
use crate::{
    error::Error,
    fault::{BatchFault, FaultKind},
    fleet::Backend,
    journal::{Purpose, Whom},
    mode::Mode,
    operation::{Operation, User, Variant},
    outcome::Outcome,
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

/// Calls a server for all of the operations at once, several times, with this trouble.
pub(super) async fn happen(stage: &Stage, how: BatchFault, operations: Range<u32>) -> Result<Option<Whom>, Error> {
    let backend = Arc::new(stage.rotation.first().await.apart());
    let whom = Whom::Server(backend.server());
    let operations: Vec<Operation> =
        operations.filter_map(|number| stage.operations.get(number as usize)).cloned().collect();
    let crowd = CallCrowd { stage, backend, operations };
    let happened = match how {
        BatchFault::CutAfter | BatchFault::CutBefore => {
            crowd.is_cut(how).await;
            false
        }
        BatchFault::Locked => crowd.is_locked().await?,
        BatchFault::Refused => crowd.is_refused().await?,
    };
    Ok(happened.then_some(whom))
}

/// Many calls of one server.
struct CallCrowd<'a> {
    stage: &'a Stage,
    backend: Arc<Backend>,
    operations: Vec<Operation>,
}

impl CallCrowd<'_> {
    /// The next connection with a shared statement is cut.
    async fn is_cut(&self, how: BatchFault) {
        let part = match self.stage.mode {
            Mode::Reserved => CLAIMS,
            Mode::Transactional => {
                // Only where calls are replayed are looks expected to say something.
                self.call().await;
                LOOKS
            }
        };
        let moment = match how {
            BatchFault::CutBefore => Moment::BeforeStatement(part),
            _ => Moment::AfterStatement(part),
        };
        let kind = FaultKind::Batch(how);
        let happened = || self.stage.journal.entries().faults.iter().filter(|fault| fault.kind == kind).count();
        let before = happened();
        cut_later(self.stage, self.backend.server().slot, kind, Cut { all: false, moment });
        for _ in 0..ROUNDS {
            self.call().await;
            if happened() > before {
                break;
            }
        }
    }

    /// The fault counts only if a shared statement has waited: then it returns `true`.
    async fn is_locked(&self) -> Result<bool, Error> {
        let (mut foreign, witness) = (self.stage.database.connect().await?, self.stage.database.connect().await?);
        let locked = self.operations.iter().step_by(LOCKED);
        let (keys, owners): (Vec<Uuid>, Vec<Uuid>) = locked.map(|operation| (operation.key, owner(operation))).unzip();
        let transaction = foreign.transaction().await?;
        transaction.execute(INSERT, &[&keys, &owners]).await?;
        let calls = self.calls();
        let until = time::Instant::now() + HOLD;
        let mut waited = false;
        while !waited && time::Instant::now() < until {
            waited = witness.query_one(WAITS, &[]).await?.try_get(0)?;
            time::sleep(LOOK).await;
        }
        transaction.rollback().await?;
        calls.join_all().await;
        self.call().await;
        Ok(waited)
    }

    /// The fault counts only if the call was refused. None of the others may be.
    async fn is_refused(&self) -> Result<bool, Error> {
        let Some(operation) = self.operations.get(self.operations.len() / 2) else { return Ok(false) };
        let owner = self.stage.database.connect().await?;
        self.stage.journal.entries().refused_rows.insert(operation.number);
        let alter =
            async |table: &str, how: &str| locked(&owner, ATTEMPTS, &format!("ALTER TABLE {table} {how}")).await;
        let check = format!("ADD CONSTRAINT {CONSTRAINT} CHECK (idempotency_key <> '{}') NOT VALID", operation.key);
        alter("tenant.idempotency_keys", &check).await?;
        let refused = self.call().await.contains(&operation.number);
        // The table may be moved meanwhile, to one that has the constraint or has not.
        for table in ["tenant.idempotency_keys", "IF EXISTS tenant.idempotency_keys_next"] {
            alter(table, &format!("DROP CONSTRAINT IF EXISTS {CONSTRAINT}")).await?;
        }
        self.call().await;
        Ok(refused)
    }

    /// Makes all calls at once, and waits for their ends. Returns the operations that the server refused as its own fault.
    async fn call(&self) -> Vec<u32> {
        self.calls().join_all().await.into_iter().flatten().collect()
    }

    fn calls(&self) -> JoinSet<Option<u32>> {
        let mut calls = JoinSet::new();
        for operation in self.operations.iter().cloned() {
            let (backend, journal) = (Arc::clone(&self.backend), Arc::clone(&self.stage.journal));
            calls.spawn(async move {
                let outcome = backend.attempt(&journal, &operation, (Variant::Asked, Purpose::Crowd), PATIENCE).await;
                let refused = matches!(&outcome, Outcome::Failed(it) if it.answered && it.code == Code::Internal);
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
