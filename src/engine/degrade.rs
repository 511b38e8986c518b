//! Handles a call that cannot be protected, because the store did not answer its claim.

use std::sync::Arc;

use tokio::time::Instant;

use super::{
    call::Call,
    disposition::{self, Disposition},
    execute::{Outcome, handle},
    handler::Handler,
    held_key::Lease,
    record::record_in_background,
    refusal::refuse,
    state::Engine,
};
use crate::{
    execution::Execution,
    grpc::UnaryResponse,
    policy::{Mode, StorePolicy},
    store::StoreError,
    telemetry::{Chain, Degradation},
};

/// Refuses the call, or runs its handler unprotected if the procedure's policy says so, as the Go interceptor does.
pub(super) async fn degrade<E>(
    engine: &Engine,
    call: Arc<Call>,
    error: &StoreError,
    mut handler: Handler<E>,
) -> Result<UnaryResponse, E> {
    let policies = call.procedure.policies();
    let lease = Lease::from(Instant::now(), policies.lease);
    if policies.mode == Mode::Transactional {
        // There is no transaction to give to the handler, and nothing of one is left.
        return refuse(&call.procedure, error);
    }
    if policies.on_store_unavailable == StorePolicy::Reject {
        let refusal = refuse(&call.procedure, error);
        if error.may_have_happened() {
            record_in_background(engine, call, Disposition::Release, lease);
        }
        return refusal;
    }
    call.procedure.telemetry().unprotected(Degradation::Store(error.kind().as_str()), &Chain(error));
    let execution = Execution::new(call.deadline);
    handler.extensions_mut().insert(execution.clone());
    let response = handle(&call.procedure, handler).await;
    let outcome = Outcome { response, effect_committed: execution.is_effect_committed() };
    if error.may_have_happened() {
        // The claim may stand: then its outcome is recorded like any other.
        let disposition = disposition::of(engine, &call, &outcome);
        record_in_background(engine, call, disposition, lease);
    }
    outcome.response
}
