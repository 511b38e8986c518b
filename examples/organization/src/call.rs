use std::time::Duration;

use tonic::{Request, Status, metadata::MetadataMap};
use tonic_idempotency::{Execution, IdempotencyKey, Transaction};
use uuid::Uuid;

use crate::auth::Caller;

/// Metadata by which a call asks to wait before it commits, so that it can be watched: whole milliseconds.
const HANDLER_DELAY: &str = "sample-handler-delay-ms";

/// The longest that it may ask for.
const LONGEST_DELAY: Duration = Duration::from_secs(10);

/// What a create call comes with.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) caller: Caller,
    /// How long it asks to be held up: [`HANDLER_DELAY`].
    pub(crate) delay: Duration,
    /// What the handler tells the idempotency layer.
    pub(crate) execution: Execution,
    /// Its idempotency key.
    pub(crate) key: Option<Uuid>,
    /// What it writes with; `None` where its procedure is in reserved mode.
    pub(crate) transaction: Option<Transaction>,
}

impl Call {
    /// The call that this request belongs to.
    ///
    /// # Errors
    ///
    /// `UNAUTHENTICATED` where it did not come through [`Authentication`](crate::auth::Authentication).
    pub(crate) fn of<T>(request: &Request<T>) -> Result<Self, Status> {
        Ok(Self {
            caller: Caller::of(request)?,
            delay: delay(request.metadata()),
            execution: Execution::from_request(request),
            key: request.extensions().get::<IdempotencyKey>().map(|key| *key.as_uuid()),
            transaction: Transaction::from_request(request).ok(),
        })
    }
}

/// None where there is none, or none that can be read.
fn delay(metadata: &MetadataMap) -> Duration {
    let asked = metadata.get(HANDLER_DELAY).and_then(|value| value.to_str().ok()?.parse().ok());
    asked.map(Duration::from_millis).unwrap_or_default().min(LONGEST_DELAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_as_asked_for_and_no_longer_than_the_longest() {
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
