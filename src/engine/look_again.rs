//! Looks at a key once more, whose outcome is not that of the call that asks.

use std::sync::Arc;

use crate::{
    engine::{
        answer::Answer,
        call::ProtectedCall,
        claim::claim,
        held_key::ClaimAnswer,
        record::{self, disposition::Disposition},
        replay,
        shared::state::Engine,
        store_rejection::reject,
    },
    rejection::Rejection,
};

/// Claims the key once more, and answers with its record: the outcome of another call, which was recorded instead of
/// this call's own, or the outcome that the reconciler found.
pub(in crate::engine) async fn look_again<A: Answer>(engine: &Engine, call: &Arc<ProtectedCall>) -> A {
    match claim(engine, call).await {
        Ok(ClaimAnswer::NotAcquired { outcome, asked }) => replay::answer(engine, call, outcome, asked, None).await,
        Ok(ClaimAnswer::Acquired(key) | ClaimAnswer::TakenOver(key)) => {
            record::let_go(engine, call, key, Disposition::Release).await;
            A::reject(call, Rejection::Conflict)
        }
        Ok(ClaimAnswer::GivenBack) => A::reject(call, Rejection::Conflict),
        Ok(ClaimAnswer::Unknown(rejection)) => A::reject(call, rejection),
        Err(error) => {
            record::release_lost_claim(engine, call, &error);
            reject(&call.procedure, &error)
        }
    }
}
