//! Calls without a key, or without a user, to transactional procedures: their handlers need a transaction all the same.

use std::time::Duration;

use tokio::time::timeout_at;

use crate::{
    caller::OwnerId,
    engine::{
        answer::Answer,
        attempts::Attempts,
        handler::Handler,
        rerun,
        shared::state::Engine,
        store_rejection::{self, lost, not_committed, transaction_lost},
    },
    execution::Execution,
    nesting::Nesting,
    policy::Procedure,
    rejection::{Rejection, TimedOutEffect},
    store::{CallSession, RollBackOutcome, StoreError, StoreTransaction, TransactionOptions},
};

/// Runs the handler in a transaction without a record, and commits what it wrote if it succeeds: again, in a new transaction, if one has
/// lost against another.
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
    let nesting = Nesting::current().unwrap_or_default();
    let mut attempts = Attempts::default();
    loop {
        let again = handler.repeated();
        let policies = procedure.policies();
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
        let ends = attempts.ends(policies.handler_timeout);
        let execution = Execution::new(None, ends, None, nesting.of_handler(Some(engine.transaction_pool)));
        let error = match run(procedure, transaction, &execution, handler).await {
            TransactionEnd::Answered(answer) => return answer,
            TransactionEnd::Lost(error) => error,
        };
        let Some(again) = again.filter(|_| !execution.say().effect_committed) else {
            return reject(procedure, lost(procedure, error));
        };
        let Some(after) = Box::pin(rerun::wait(engine, attempts, ends, None)).await else {
            return reject(procedure, lost(procedure, error));
        };
        procedure.telemetry().rerun();
        (attempts, handler) = (after, again);
    }
}

/// The end of a call's transaction.
enum TransactionEnd<A> {
    Answered(A),
    /// It has lost, and is rolled back. The error is that of its COMMIT.
    Lost(Option<StoreError>),
}

/// Runs the handler in the transaction.
async fn run<A: Answer>(
    procedure: &Procedure,
    transaction: Box<dyn StoreTransaction>,
    execution: &Execution,
    mut handler: Handler<A>,
) -> TransactionEnd<A> {
    transaction.hand_out(handler.extensions_mut());
    handler.extensions_mut().insert(execution.clone());
    let answer = timeout_at(execution.ends(), execution.nesting().around(handler.run())).await;
    if let Some(times) = transaction.times() {
        procedure.telemetry().transaction_used(times.idle, times.working);
    }
    let Ok(answer) = answer else {
        transaction.roll_back().await;
        procedure.telemetry().handler_timed_out();
        let rejection = Rejection::HandlerTimeout { effect: TimedOutEffect::RolledBack, lease_left: Duration::ZERO };
        return TransactionEnd::Answered(reject(procedure, rejection));
    };
    if transaction.is_in_conflict(answer.error()) {
        transaction.roll_back().await;
        return TransactionEnd::Lost(None);
    }
    TransactionEnd::Answered(if answer.is_success() {
        match transaction.commit(None).await {
            Ok(_) => answer,
            Err(error) if error.has_lost() => return TransactionEnd::Lost(Some(error)),
            Err(error) => reject(procedure, not_committed(procedure, &error)),
        }
    } else {
        match transaction.roll_back().await {
            RollBackOutcome::RolledBack => answer,
            RollBackOutcome::Lost => reject(procedure, transaction_lost(procedure)),
        }
    })
}

fn reject<A: Answer>(procedure: &Procedure, rejection: Rejection) -> A {
    procedure.telemetry().rejected(rejection.reason().as_str());
    A::rejected(rejection)
}
