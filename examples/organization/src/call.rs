//! The context of a create call: its user, its key and its transaction.

use std::time::Duration;

use tonic::{Request, Status, metadata::MetadataMap};
use tonic_idempotency::{Execution, IdempotencyKey, Transaction};
use uuid::Uuid;

use crate::auth::Caller;

/// The request metadata with the time to wait before the commit, in whole milliseconds. It makes a running call
/// observable.
const HANDLER_DELAY: &str = "sample-handler-delay-ms";

/// The maximum of [`HANDLER_DELAY`].
const LONGEST_DELAY: Duration = Duration::from_secs(10);

/// The context of a create call.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) caller: Caller,
    /// The time to wait before the commit: [`HANDLER_DELAY`].
    pub(crate) delay: Duration,
    /// The handle by which the handler reports to the idempotency layer.
    pub(crate) execution: Execution,
    /// The idempotency key as it is stored, if the call has one.
    pub(crate) key: Option<Uuid>,
    /// The transaction for the handler's writes; `None` in reserved mode.
    pub(crate) transaction: Option<Transaction>,
}

impl Call {
    /// Returns the context of a request's call.
    ///
    /// # Errors
    ///
    /// `UNAUTHENTICATED` if the request did not pass [`Authentication`](crate::auth::Authentication).
    pub(crate) fn of<T>(request: &Request<T>) -> Result<Self, Status> {
        Ok(Self {
            caller: Caller::of(request)?,
            delay: delay(request.metadata()),
            execution: Execution::from_request(request),
            key: request.extensions().get::<IdempotencyKey>().map(|key| *key.id().as_uuid()),
            transaction: Transaction::from_request(request).ok(),
        })
    }
}

/// Returns the requested delay, limited to [`LONGEST_DELAY`]; zero if it is missing or invalid.
fn delay(metadata: &MetadataMap) -> Duration {
    let asked = metadata.get(HANDLER_DELAY).and_then(|value| value.to_str().ok()?.parse().ok());
    asked.map(Duration::from_millis).unwrap_or_default().min(LONGEST_DELAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_the_delay_and_ignores_an_invalid_one() {
        for (asked, expected) in
            [(None, 0), (Some("1500"), 1500), (Some("60000"), 10_000), (Some("-1"), 0), (Some("soon"), 0)]
        {
            let mut metadata = MetadataMap::new();
            if let Some(asked) = asked {
                metadata.insert(HANDLER_DELAY, asked.parse().expect("a value"));
            }
            assert_eq!(delay(&metadata), Duration::from_millis(expected), "{asked:?}");
        }
    }
}
