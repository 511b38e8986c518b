//! The context of a call that writes: its user and its key, and the steps that it passes.

use std::time::Duration;

use tonic::{Extensions, Request, Status, metadata::MetadataMap};
use tonic_idempotency::{Execution, IdempotencyKey, policy::Abandoned};
use uuid::Uuid;

use crate::auth::Caller;

/// The request metadata with the time to wait before the commit, in whole milliseconds. It makes a running call
/// observable.
const HANDLER_DELAY: &str = "sample-handler-delay-ms";

/// The maximum of [`HANDLER_DELAY`].
const LONGEST_DELAY: Duration = Duration::from_secs(10);

/// The response header by which the layer marks replays.
pub(crate) const REPLAYED: &str = "idempotent-replayed";

/// The context of a call that writes.
#[derive(Debug)]
pub struct Call {
    /// The user.
    pub caller: Caller,
    /// The time to wait before the commit, as the request asks for.
    pub delay: Duration,
    /// The handle by which the handler reports to the idempotency layer.
    pub execution: Execution,
    /// The request's extensions from the idempotency layer: the driver's transaction, in transactional mode.
    pub extensions: Extensions,
    /// The idempotency key as it is stored, if the call has one.
    pub key: Option<Uuid>,
}

impl Call {
    /// Returns the context of a request's call.
    ///
    /// # Errors
    ///
    /// `UNAUTHENTICATED` if the request did not pass the sample's authentication.
    pub fn of<T>(request: &Request<T>) -> Result<Self, Status> {
        Ok(Self {
            caller: Caller::of(request)?,
            delay: delay(request.metadata()),
            execution: Execution::from_request(request),
            extensions: request.extensions().clone(),
            key: request.extensions().get::<IdempotencyKey>().map(|key| *key.id().as_uuid()),
        })
    }

    /// The context of what a reconciler does for a call whose process died.
    pub fn of_abandoned(abandoned: &Abandoned) -> Self {
        Self {
            caller: Caller::of_owner(abandoned.owner),
            delay: Duration::ZERO,
            execution: Execution::default(),
            extensions: Extensions::default(),
            key: Some(*abandoned.key.as_uuid()),
        }
    }
}

/// Waits. No time is no wait: a timer would round it up to its next tick.
pub async fn wait(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

/// Traces a step of a handler, as the layer does for its own steps with the target `tonic_idempotency::step`.
pub fn step(step: &'static str) {
    tracing::trace!(target: "organization::step", step);
}

/// Returns the requested delay, limited to [`LONGEST_DELAY`]; zero if it is missing or invalid.
fn delay(metadata: &MetadataMap) -> Duration {
    let asked = metadata.get(HANDLER_DELAY).and_then(|value| value.to_str().ok()?.parse().ok());
    asked.map(Duration::from_millis).unwrap_or_default().min(LONGEST_DELAY)
}

#[cfg(test)]
mod tests {
    use std::{
        future::Future as _,
        pin::pin,
        task::{Context, Waker},
    };

    use super::*;

    #[tokio::test]
    async fn waits_for_no_longer_than_it_has_to() {
        let is_over = |time| pin!(wait(time)).poll(&mut Context::from_waker(Waker::noop())).is_ready();
        assert!(is_over(Duration::ZERO) && !is_over(Duration::from_nanos(1)));
    }

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
