//! Calls to the servers.

use std::{sync::Arc, time::Duration};

use crate::{
    fault::FaultKind,
    fleet::{Backend, Rotation},
    journal::{Journal, Purpose, Whom},
    operation::{Operation, Variant},
    outcome::Outcome,
};
use rand::Rng;
use tokio::{task::JoinSet, time};

/// The time that a client waits for a server in rotation.
const NO_SERVER: Duration = Duration::from_secs(10);

/// Makes calls and notes each in the journal.
#[derive(Clone, Debug)]
pub(crate) struct Calls {
    pub(crate) journal: Arc<Journal>,
    pub(crate) rotation: Arc<Rotation>,
}

impl Calls {
    /// Calls any server, and waits for the answer. If there is no server, the outcome is that of a timeout.
    pub(crate) async fn call(
        &self,
        operation: &Operation,
        variant: Variant,
        purpose: Purpose,
        rng: &mut impl Rng,
    ) -> Outcome {
        match self.any(rng).await {
            Some(backend) => {
                backend.attempt(&self.journal, operation, (variant, purpose), operation.habits.patience).await
            }
            None => Outcome::TimedOut,
        }
    }

    /// Calls any server, and hangs up after this long if it has not answered.
    pub(crate) async fn hang_up(&self, operation: &Operation, after: Duration, rng: &mut impl Rng) -> Outcome {
        let Some(backend) = self.any(rng).await else { return Outcome::TimedOut };
        let attempt = self.journal.begin(operation.number, Variant::Asked, Purpose::Ask, backend.server());
        let calling = backend.call(operation, Variant::Asked, operation.habits.patience);
        let outcome = time::timeout(after, calling).await.unwrap_or(Outcome::HungUp);
        if matches!(outcome, Outcome::HungUp) {
            let now = self.journal.now();
            self.journal.fault(FaultKind::ClientHungUp, Whom::Server(backend.server()), now);
        }
        self.journal.end(attempt, outcome.clone());
        outcome
    }

    /// Calls several servers at the same time, or one of them several times. Waits for all answers and returns the
    /// best.
    pub(crate) async fn hedge(&self, operation: &Operation, further: usize, rng: &mut impl Rng) -> Outcome {
        let mut calls = JoinSet::new();
        for number in 0..=further {
            let purpose = if number == 0 { Purpose::Ask } else { Purpose::Hedge };
            if let Some(backend) = self.any(rng).await {
                let (journal, operation) = (Arc::clone(&self.journal), operation.clone());
                calls.spawn(async move {
                    let patience = operation.habits.patience;
                    backend.attempt(&journal, &operation, (Variant::Asked, purpose), patience).await
                });
            }
        }
        let outcomes = calls.join_all().await;
        let best = outcomes.into_iter().max_by_key(|outcome| (outcome.acknowledgement().is_some(), outcome.is_final()));
        best.unwrap_or(Outcome::TimedOut)
    }

    async fn any(&self, rng: &mut impl Rng) -> Option<Arc<Backend>> {
        time::timeout(NO_SERVER, self.rotation.any(rng)).await.ok()
    }
}
