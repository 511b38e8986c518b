//! Calls without a key, or without a user, to transactional procedures: their handlers need a transaction all the same.

use crate::{
    caller::OwnerId,
    engine::{
        answer::Answer,
        handler::Handler,
        shared::state::Engine,
        store_rejection::{self, not_committed, transaction_lost},
    },
    nesting::Nesting,
    policy::Procedure,
    rejection::Rejection,
    store::{CallSession, RollBackOutcome, TransactionOptions},
};

/// Runs the handler in a transaction without a record, and commits what it wrote if it succeeds.
///
/// # Cancel safety
///
/// If the future is dropped, the transaction is rolled back, unless it is being committed. Handles to it no longer work.
pub(crate) async fn run_without_key<A: Answer>(
    engine: &Engine,
    procedure: &Procedure,
    owner: Option<OwnerId>,
    session: &CallSession,
    mut handler: Handler<A>,
) -> A {
    let policies = procedure.policies();
    let nesting = Nesting::current().unwrap_or_default();
    let options = TransactionOptions {
        idle: policies.transaction_idle,
        isolation: policies.isolation,
        savepoint: false,
        inside: nesting.inside(engine.transaction_pool),
    };
    let transaction = match engine.store.begin_without_key(owner, session, options).await {
        Ok(transaction) => transaction,
        Err(error) => return store_rejection::reject(procedure, &error),
    };
    transaction.hand_out(handler.extensions_mut());
    let answer = nesting.of_handler(Some(engine.transaction_pool)).around(handler.run()).await;
    if let Some(times) = transaction.times() {
        procedure.telemetry().transaction_used(times.idle, times.working);
    }
    if transaction.is_in_conflict(answer.error()) {
        transaction.roll_back().await;
        return reject(procedure, Rejection::Conflict);
    }
    if !answer.is_success() {
        return match transaction.roll_back().await {
            RollBackOutcome::RolledBack => answer,
            RollBackOutcome::Lost => reject(procedure, transaction_lost(procedure)),
        };
    }
    match transaction.commit(None).await {
        Ok(_) => answer,
        Err(error) => reject(procedure, not_committed(procedure, &error)),
    }
}

fn reject<A: Answer>(procedure: &Procedure, rejection: Rejection) -> A {
    procedure.telemetry().rejected(rejection.reason().as_str());
    A::rejected(rejection)
}
