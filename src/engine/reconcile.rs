//! Determines how the previous holder's call ended.

use std::sync::Arc;

use crate::{
    engine::{
        call::ProtectedCall,
        held_key::HeldKey,
        record::{
            self, RecordProgress,
            disposition::{self, Disposition},
        },
        seal,
        shared::state::Engine,
    },
    policy::Reconciliation,
    telemetry::Chain,
};

/// The consequence of the reconciler's answer for the call that asked.
pub(crate) enum Verdict {
    /// The handler may run, with the key that was held for the question.
    NotExecuted(HeldKey),
    /// The outcome is known, but the store does not take it at the moment.
    NotRecorded,
    /// The outcome is recorded.
    Recorded,
    /// The outcome is unknown.
    Unknown,
}

/// Asks the reconciler how the previous holder's call ended, and records its answer. Under any other policy the handler runs
/// again.
pub(crate) async fn reconcile(engine: &Engine, call: &Arc<ProtectedCall>, key: HeldKey) -> Verdict {
    if !call.procedure.policies().reconciles() {
        call.procedure.telemetry().taken_over();
        return Verdict::NotExecuted(key);
    }
    let message = match engine.reconcilers.ask(call).await {
        Reconciliation::Completed(message) => message,
        Reconciliation::NotExecuted => return Verdict::NotExecuted(key),
        Reconciliation::Unknown => {
            record::let_go(engine, call, key, Disposition::Abandon).await;
            return Verdict::Unknown;
        }
    };
    let completion = seal::sealed(call, disposition::completion(engine, call, Some(message), None));
    match key {
        HeldKey::Reservation(lease) => {
            let complete = Disposition::Complete(completion);
            if record::record(engine, call, complete, lease).await == RecordProgress::Waiting {
                // Recorded in the background: the key must not be claimed and released meanwhile.
                return Verdict::NotRecorded;
            }
        }
        HeldKey::Transaction(transaction) => {
            if let Err(error) = transaction.commit(Some(completion)).await {
                call.procedure.telemetry().not_committed(error.kind().as_str(), &Chain(&error));
                return Verdict::NotRecorded;
            }
        }
    }
    Verdict::Recorded
}
