//! Calls without a record to procedures whose handlers need a transaction.

use crate::{
    Procedure, UserId,
    engine::{Engine, handler::Handler, settle::not_committed},
    grpc::UnaryResponse,
    rejection::Rejection,
    store::{StoreErrorKind, TransactionOptions},
    telemetry::{self, Chain},
};

impl Engine {
    /// Runs the handler in a transaction of its own, and commits what it wrote if it succeeds.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it is rolled back, unless it is being committed.
    pub(crate) async fn in_transaction<E>(
        &self,
        procedure: &Procedure,
        user: Option<UserId>,
        mut handler: Handler<E>,
    ) -> Result<UnaryResponse, E> {
        let policies = procedure.policies();
        let options = TransactionOptions { isolation: policies.isolation, savepoint: false };
        let transaction = match self.store.begin_without_key(user, policies.lease, options).await {
            Ok(transaction) => transaction,
            Err(error) => {
                telemetry::store_unavailable(procedure, &Chain(&error));
                return Ok(refused(
                    procedure,
                    match error.kind() {
                        StoreErrorKind::Conflict => Rejection::Conflict,
                        _ => Rejection::StoreUnavailable,
                    },
                ));
            }
        };
        transaction.hand_out(handler.extensions_mut());
        let response = handler.run().await;
        if !matches!(&response, Ok(response) if response.is_success()) {
            let in_conflict = transaction.is_in_conflict();
            transaction.roll_back().await;
            return if in_conflict { Ok(refused(procedure, Rejection::Conflict)) } else { response };
        }
        match transaction.commit(None).await {
            Ok(_) => response,
            Err(error) => Ok(refused(procedure, not_committed(procedure, &error))),
        }
    }
}

fn refused(procedure: &Procedure, rejection: Rejection) -> UnaryResponse {
    telemetry::rejected(procedure, rejection.reason());
    UnaryResponse::failed(rejection.into())
}
