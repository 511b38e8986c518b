//! What to do where a call cannot be protected.

use std::sync::Arc;

use tokio::time::Instant;

use crate::{
    Execution, Mode, StorePolicy,
    engine::{
        Engine,
        call::Call,
        execute::{Outcome, handle},
        handler::Handler,
        held_key::Lease,
        settle::Settlement,
    },
    grpc::UnaryResponse,
    store::StoreError,
    telemetry::{self, Chain, Degradation},
};

impl Engine {
    /// What to do where the store does not answer the claim (FUN-15 section 5).
    pub(crate) async fn degrade<E>(
        &self,
        call: Arc<Call>,
        error: &StoreError,
        mut handler: Handler<E>,
    ) -> Result<UnaryResponse, E> {
        let policies = call.procedure.policies();
        let lease = Lease::from(Instant::now(), policies.lease);
        if policies.mode == Mode::Transactional {
            // There is no transaction to give to the handler, and nothing of one is left.
            return self.refuse_without_store(&call, error);
        }
        if policies.on_store_unavailable == StorePolicy::Reject {
            let refusal = self.refuse_without_store(&call, error);
            if error.may_have_happened() {
                self.settle_later(call, Settlement::Release, lease);
            }
            return refusal;
        }
        telemetry::unprotected(&call.procedure, Degradation::Store(error.kind()), &Chain(error));
        let execution = Execution::new(call.deadline);
        handler.extensions_mut().insert(execution.clone());
        let response = handle(&call.procedure, handler).await;
        let outcome = Outcome { response, effect_committed: execution.is_effect_committed() };
        if error.may_have_happened() {
            // The claim may stand: then its outcome is recorded like any other.
            let settlement = self.settlement(&call, &outcome);
            self.settle_later(call, settlement, lease);
        }
        outcome.response
    }
}
