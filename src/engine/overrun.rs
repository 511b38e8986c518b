//! Ends a call whose handler had not ended when its time was up.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{
    engine::{
        answer::Answer,
        call::ProtectedCall,
        execute::Overrun,
        held_key::HeldKey,
        record::{self, disposition::Disposition},
        shared::state::Engine,
    },
    rejection::{Rejection, TimedOutEffect},
};

/// Answers a call whose handler had not ended in time, and gives up its key: `None` if it has none.
///
/// | the key | becomes |
/// |---|---|
/// | in a transaction | free: that is rolled back |
/// | reserved | what it is: the effect may still come. The lease ends by itself, and then `on_lease_ended` decides |
/// | reserved, and the handler has said that its effect is committed | abandoned |
pub(in crate::engine) async fn overrun<A: Answer>(
    engine: &Engine,
    call: &Arc<ProtectedCall>,
    key: Option<HeldKey>,
    Overrun { say }: Overrun,
) -> A {
    call.procedure.telemetry().handler_timed_out();
    let (effect, lease_left) = match key {
        Some(HeldKey::Transaction(transaction)) => {
            transaction.roll_back().await;
            (TimedOutEffect::RolledBack, Duration::ZERO)
        }
        Some(HeldKey::Reservation(lease)) if say.effect_committed => {
            record::record(engine, call, Disposition::Abandon, lease).await;
            (TimedOutEffect::Unknown, Duration::ZERO)
        }
        Some(HeldKey::Reservation(lease)) => {
            (TimedOutEffect::Unknown, lease.ends.saturating_duration_since(Instant::now()))
        }
        None => (TimedOutEffect::Unknown, Duration::ZERO),
    };
    A::reject(call, Rejection::HandlerTimeout { effect, lease_left })
}
