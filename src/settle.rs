//! Records how a call ended.

use crate::{
    call::Call,
    store::{CompleteOutcome, Completion, DynStore, ReleaseOutcome, StoreError},
    telemetry::{self, Chain},
};

/// How a call ended, as far as its key is concerned.
#[derive(Debug)]
pub(crate) enum Settlement {
    /// It succeeded.
    Complete(Completion),
    /// It failed, and may be tried again.
    Release,
}

impl Settlement {
    pub(crate) fn step(&self) -> &'static str {
        match self {
            Self::Complete(_) => "complete",
            Self::Release => "release",
        }
    }
}

/// One attempt. To find the key taken over is an answer: there is nothing left to settle.
pub(crate) async fn settle(store: &dyn DynStore, call: &Call, settlement: &Settlement) -> Result<(), StoreError> {
    let settled = match settlement {
        Settlement::Complete(completion) => match store.complete(&call.reservation, completion).await {
            Ok(CompleteOutcome::AlreadyCompleted | CompleteOutcome::Completed) => Ok(true),
            Ok(CompleteOutcome::Fenced) => Ok(false),
            Err(error) => Err(error),
        },
        Settlement::Release => match store.release(&call.reservation).await {
            Ok(ReleaseOutcome::Released) => Ok(true),
            Ok(ReleaseOutcome::NotHeld) => Ok(false),
            Err(error) => Err(error),
        },
    };
    match settled {
        Ok(true) => Ok(()),
        Ok(false) => {
            let what =
                "the key is no longer this call's: its lease ended and it was taken over, or it was never reserved";
            telemetry::not_settled(&call.procedure, settlement.step(), what, None);
            Ok(())
        }
        Err(error) => {
            let what = "the outcome of a call is not recorded yet";
            telemetry::not_settled(&call.procedure, settlement.step(), what, Some(&Chain(&error)));
            Err(error)
        }
    }
}
