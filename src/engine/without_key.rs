//! Calls without a key, or without a user, to transactional procedures: their handlers need a transaction all the same.

use crate::{
    caller::OwnerId,
    engine::{
        claim::refusal::{not_committed, refuse},
        handler::Handler,
        shared::state::Engine,
    },
    grpc::UnaryResponse,
    policy::Procedure,
    rejection::Rejection,
    store::{CallSession, TransactionOptions},
};

/// Runs the handler in a transaction without a record, and commits what it wrote if it succeeds.
///
/// # Cancel safety
///
/// If the future is dropped, the transaction is rolled back, unless it is being committed. Handles to it no longer work.
pub(crate) async fn run_without_key<E>(
    engine: &Engine,
    procedure: &Procedure,
    owner: Option<OwnerId>,
    session: &CallSession,
    mut handler: Handler<E>,
) -> Result<UnaryResponse, E> {
    let policies = procedure.policies();
    let options =
        TransactionOptions { idle: policies.transaction_idle, isolation: policies.isolation, savepoint: false };
    let transaction = match engine.store.begin_without_key(owner, session, options).await {
        Ok(transaction) => transaction,
        Err(error) => return refuse(procedure, &error),
    };
    transaction.hand_out(handler.extensions_mut());
    let response = handler.run().await;
    if let Some(times) = transaction.times() {
        procedure.telemetry().transaction_used(times.idle, times.working);
    }
    if transaction.is_in_conflict(response.as_ref().ok().and_then(UnaryResponse::error)) {
        transaction.roll_back().await;
        return Ok(reject(procedure, Rejection::Conflict));
    }
    if !matches!(&response, Ok(response) if response.is_success()) {
        transaction.roll_back().await;
        return response;
    }
    match transaction.commit(None).await {
        Ok(_) => response,
        Err(error) => Ok(reject(procedure, not_committed(procedure, &error))),
    }
}

fn reject(procedure: &Procedure, rejection: Rejection) -> UnaryResponse {
    procedure.telemetry().rejected(rejection.reason().as_str());
    UnaryResponse::failed(rejection.into())
}
