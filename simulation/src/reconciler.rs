//! Finds out how abandoned calls ended: it asks the other system, which is the ledger.

use std::{error::Error, sync::Arc};

use prost::Message as _;
use tonic_idempotency::policy::{Abandoned, Reconciler, Reconciliation};

use crate::{
    database::Database,
    go::FIRST_RUN,
    ledger::Ledger,
    plan::{Operation, Procedure, caller},
    service::proto::{EnterReply, EnterRequest},
    world::World,
};

/// A reconciler that is never wrong, and does not always know.
#[derive(Clone, Debug)]
pub struct Witness {
    /// The operations of the plan.
    pub operations: Arc<Vec<Operation>>,
    /// The evidence.
    pub ledger: Ledger,
    /// The database, in which it looks for the effects that are there.
    pub database: Database,
    /// The world, which counts what it says.
    pub world: World,
}

impl Reconciler for Witness {
    async fn reconcile(&self, abandoned: Abandoned) -> Result<Reconciliation, Box<dyn Error + Send + Sync>> {
        let (id, is_recovery) = ((*abandoned.owner.as_uuid(), *abandoned.key.as_uuid()), abandoned.caller.is_none());
        let answer = self.answer(abandoned)?;
        if is_recovery && matches!(answer, Reconciliation::Completed(_)) {
            self.ledger.lock().recovered.insert(id);
        }
        self.world.count(
            "reconciler",
            match answer {
                Reconciliation::NotExecuted => "not executed",
                Reconciliation::Unknown => "unknown",
                _ => "completed",
            },
        );
        Ok(answer)
    }
}

impl Witness {
    fn answer(&self, abandoned: Abandoned) -> Result<Reconciliation, Box<dyn Error + Send + Sync>> {
        let is_its = |operation: &&Operation| {
            let owner = operation.user.map(|user| caller(user, operation.scope).owner());
            let is_of_procedure =
                abandoned.procedure.rsplit('/').next() == operation.procedure.path().rsplit('/').next();
            owner == Some(abandoned.owner) && operation.stored == *abandoned.key.as_uuid() && is_of_procedure
        };
        let mut operations: Vec<_> = self.operations.iter().filter(is_its).collect();
        match abandoned.request.map(EnterRequest::decode) {
            Some(request) => {
                let number = request?.operation;
                operations.retain(|operation| operation.message as u64 == number);
            }
            // In the background nothing tells which of several was under way.
            None if operations.len() > 1 => return Ok(Reconciliation::Unknown),
            None => {}
        }
        let evidence = self.ledger.lock();
        let of_go =
            evidence.go_runs.iter().enumerate().rfind(|(_, go)| operations.iter().any(|it| it.number == go.operation));
        match of_go {
            Some((_, go)) if go.to.is_none() => return Ok(Reconciliation::Unknown),
            Some((number, go)) if go.is_done => {
                let operation = operations.iter().find(|operation| operation.number == go.operation);
                let operation = operation.expect("it was found by it");
                return Ok(Reconciliation::completed(&EnterReply::new(FIRST_RUN + number as u64, operation)));
            }
            _ => {}
        }
        let mut answer = Reconciliation::NotExecuted;
        for (number, run) in evidence.runs.iter().enumerate() {
            let Some(operation) = operations.iter().find(|operation| operation.number == run.operation) else {
                continue;
            };
            let goes_on = run.ended.is_none() && run.process.is_alive();
            // The last one counts: a record may have expired between two.
            // A transaction that was committed has a record, and leaves nothing to ask.
            if operation.procedure == Procedure::Enter {
                continue;
            }
            let is_there = match operation.procedure {
                Procedure::Insert => self.database.has_effect(number as u64),
                _ => run.effect.is_some(),
            };
            answer = match () {
                () if goes_on => Reconciliation::Unknown,
                () if is_there => Reconciliation::completed(&EnterReply::new(number as u64, operation)),
                () if run.is_sent => Reconciliation::Unknown,
                () => answer,
            };
        }
        Ok(answer)
    }
}
