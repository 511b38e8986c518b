//! The release of keys by operators.

use std::fmt;

use http::Extensions;
use tonic::Status;
use uuid::Uuid;

use crate::{
    caller::Caller,
    engine::refusal,
    store::{DynOperatorStore, OperatorRelease, OperatorReleaseOutcome},
    telemetry::ProcedureTelemetry,
};

/// The longest reason of a release, in bytes.
const LONGEST_REASON: usize = 1000;

type IsOperator = Box<dyn Fn(&Caller, &Extensions) -> bool + Send + Sync>;

/// Who may release keys, and the store that does.
#[derive(Default)]
pub(super) struct Operators {
    /// `None`: nobody.
    pub(super) is_operator: Option<IsOperator>,
    pub(super) store: Option<Box<dyn DynOperatorStore>>,
}

impl Operators {
    /// Returns the store that releases keys for this caller.
    pub(super) fn store_for(&self, caller: &Caller, extensions: &Extensions) -> Result<&dyn DynOperatorStore, Status> {
        if !self.is_operator.as_ref().is_some_and(|is_operator| is_operator(caller, extensions)) {
            return Err(Status::permission_denied("only operators may release keys"));
        }
        self.store.as_deref().ok_or_else(|| {
            Status::unimplemented(
                "this server cannot release keys: give its OperationService a store of the operators' own role \
                 (OperationServiceBuilder::operator_store)",
            )
        })
    }
}

/// Releases the key. The note tells the operator, whom the database does not know, beside the reason.
pub(super) async fn release(
    store: &dyn DynOperatorStore,
    release: OperatorRelease,
    operator: &Caller,
    telemetry: &ProcedureTelemetry,
) -> Result<(), Status> {
    if release.reason.len() > LONGEST_REASON {
        return Err(Status::invalid_argument(format!("the reason is longer than {LONGEST_REASON} bytes")));
    }
    let reason = format!("{} (asked by {})", release.reason, name(operator));
    let outcome = store.operator_release(&OperatorRelease { reason: reason.trim().to_owned(), ..release }).await;
    let why_not = match outcome.map_err(|error| refusal::rejection(telemetry, &error))? {
        OperatorReleaseOutcome::Released | OperatorReleaseOutcome::Absent => return Ok(()),
        OperatorReleaseOutcome::OtherToken => "another call holds the key, with another token; look at the key again",
        OperatorReleaseOutcome::Running => {
            "a transaction is open for the key; wait until it has ended, or end its connection"
        }
        OperatorReleaseOutcome::Ended => "the call has an outcome, which a retry gets; it is not released",
    };
    Err(Status::failed_precondition(why_not))
}

/// Reads the token of a request; `None` if it is empty.
pub(super) fn token(text: &str) -> Result<Option<Uuid>, Status> {
    match text {
        "" => Ok(None),
        text => Uuid::try_parse(text).map(Some).map_err(|_| Status::invalid_argument("the token is not a UUID")),
    }
}

fn name(operator: &Caller) -> String {
    match &operator.scope {
        Some(scope) => format!("{} in {}", operator.user.to_text(), scope.to_text()),
        None => operator.user.to_text().into_owned(),
    }
}

impl fmt::Debug for Operators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operators")
            .field("is_operator", &self.is_operator.is_some())
            .field("store", &self.store.is_some())
            .finish()
    }
}
