//! Handles a call whose claim failed: rejects it, or runs it unprotected.

use std::sync::Arc;

use crate::{
    engine::{
        answer::Answer,
        call::ProtectedCall,
        execute::execute_unprotected,
        handler::Handler,
        held_key::{HeldKey, Lease},
        overrun::overrun,
        record::{disposition, record_in_background, release_lost_claim, settle::for_followers},
        shared::{shutdown::Stage, single_flight::Leader, state::Engine, tracker::TrackedCall},
        store_rejection::reject,
        time::key_age,
    },
    policy::{Mode, Policies, StorePolicy},
    store::StoreError,
    telemetry::{Chain, Unprotected},
};

/// Rejects the call, or runs its handler unprotected.
///
/// | the store | mode | policy | the call |
/// |---|---|---|---|
/// | cannot be asked | reserved | `Proceed` | runs unprotected |
/// | cannot be asked | reserved | `Reject` | is rejected |
/// | cannot be asked | transactional | any | is rejected: there is no transaction for the handler |
/// | failed in any other way | any | any | is rejected |
///
/// If the call runs, its followers get its response. If the answer to the claim was lost, the claim may stand: then the outcome of a call
/// that runs is recorded like any other, and the key of a call that is rejected is freed.
pub(in crate::engine) async fn degrade<A: Answer>(
    engine: &Engine,
    call: &Arc<ProtectedCall>,
    error: &StoreError,
    handler: Handler<A>,
    tracked: &TrackedCall,
    leader: Option<&Leader>,
) -> A {
    let policies = call.procedure.policies();
    if !proceeds(policies, error)
        || key_age::rejection(&call.procedure, call.reservation.key, engine.clock.now()).is_some()
    {
        release_lost_claim(engine, call, error);
        return reject(&call.procedure, error);
    }
    tracked.set_stage(Stage::Handler);
    call.procedure.telemetry().unprotected(Unprotected::Store(error.kind().as_str()), &Chain(error));
    let mut lease = error.may_have_happened().then(|| Lease::unconfirmed(policies.lease));
    let ends = call.attempts.ends(policies.handler_timeout);
    let outcome = match execute_unprotected(engine, call, lease.as_mut(), handler, ends).await {
        Ok(outcome) => outcome,
        Err(late) => return overrun(engine, call, lease.map(HeldKey::Reservation), late).await,
    };
    let has_followers = leader.is_some_and(Leader::has_followers);
    if lease.is_some() || has_followers {
        let disposition = disposition::of(engine, call, &outcome);
        // Otherwise each follower would run unprotected, too.
        if let Some(leader) = leader
            && let Some(recorded) = for_followers(engine, call, &disposition, leader)
        {
            leader.publish(&recorded);
        }
        if let Some(lease) = lease {
            record_in_background(engine, Arc::clone(call), disposition.sealed(call), lease);
        }
    }
    outcome.answer
}

/// Returns whether a call whose claim failed with this error runs unprotected.
fn proceeds(policies: &Policies, error: &StoreError) -> bool {
    policies.mode == Mode::Reserved
        && policies.on_store_unavailable == StorePolicy::Proceed
        && error.kind().is_unavailable()
}
