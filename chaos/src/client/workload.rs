//! The work of the clients.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use rand::{Rng, RngExt as _, SeedableRng as _, rngs::ChaCha8Rng};
use tokio::time::{self, Instant};

use super::{Calls, backoff::Backoff};
use crate::{
    journal::Purpose,
    operation::{Operation, Variant},
    pace::Pace,
    seed::{Seed, Subject},
};

/// The longest that a client tries before it gives an operation up.
const PATIENCE: Duration = Duration::from_secs(60);

/// The latest time of a hang-up. Most calls are still under way then.
const HANG_UP: Duration = Duration::from_millis(40);

/// A client looks back after one in this many operations, on average.
const LOOK_BACK: u32 = 7;

/// The number of operations that a client remembers.
const MEMORY: usize = 50;

/// The operations to carry out, and the means to do it.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) calls: Calls,
    pub(crate) operations: Arc<[Operation]>,
    pub(crate) pace: Arc<Pace>,
    pub(crate) seed: Seed,
}

impl Workload {
    /// Runs one client until there are no more operations.
    pub(crate) async fn client(self, number: u32) {
        let mut rng = self.seed.rng(Subject::Client(number));
        let mut memory = VecDeque::new();
        while let Some(number) = self.pace.next().await {
            let Some(operation) = self.operations.get(number as usize) else { return };
            if self.carry_out(operation).await {
                memory.push_back(number);
                if memory.len() > MEMORY {
                    memory.pop_front();
                }
            }
            self.calls.journal.entries().done += 1;
            if rng.random_ratio(1, LOOK_BACK) && !memory.is_empty() {
                self.look_back(memory[rng.random_range(0..memory.len())], &mut rng).await;
            }
        }
    }

    /// Tries with the same key until there is an answer. Returns whether the operation was acknowledged.
    async fn carry_out(&self, operation: &Operation) -> bool {
        let mut rng = self.seed.rng(Subject::Attempts(operation.number));
        let mut backoff = Backoff::new();
        let mut hang_ups = operation.habits.hang_ups;
        let mut hedges = operation.habits.hedges;
        let deadline = Instant::now() + PATIENCE;
        let outcome = loop {
            let outcome = if hang_ups > 0 {
                hang_ups -= 1;
                let after = rng.random_range(Duration::ZERO..HANG_UP);
                self.calls.hang_up(operation, after, &mut rng).await
            } else if hedges > 0 {
                self.calls.hedge(operation, std::mem::take(&mut hedges), &mut rng).await
            } else {
                self.calls.call(operation, Variant::Asked, Purpose::Ask, &mut rng).await
            };
            if outcome.is_final() {
                break outcome;
            }
            if Instant::now() > deadline {
                self.calls.journal.entries().given_up.insert(operation.number);
                break outcome;
            }
            time::sleep(backoff.after(&outcome, &mut rng)).await;
        };
        let acknowledgement = outcome.acknowledgement();
        // The key of an unprotected call may be free.
        if operation.habits.changes && acknowledgement.is_some_and(|given| given.protected) {
            self.change(operation, &mut rng).await;
        }
        acknowledgement.is_some()
    }

    /// Uses the key for another request, at the same time as for its own. One is refused, and the other is replayed.
    async fn change(&self, operation: &Operation, rng: &mut impl Rng) {
        let mut other = ChaCha8Rng::from_rng(rng);
        tokio::join!(
            self.calls.call(operation, Variant::Changed, Purpose::LookBack, rng),
            self.calls.call(operation, Variant::Asked, Purpose::LookBack, &mut other),
        );
    }

    /// Repeats an operation that was acknowledged some time ago. The auditor judges the answer.
    async fn look_back(&self, number: u32, rng: &mut impl Rng) {
        if let Some(operation) = self.operations.get(number as usize) {
            self.calls.call(operation, Variant::Asked, Purpose::LookBack, rng).await;
        }
    }
}
