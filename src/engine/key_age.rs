//! The age of a key, by the time in it: a call whose key has expired does not run.

use std::time::Duration;

use super::{call::Call, state::Engine};
use crate::{key::InvalidKey, rejection::Rejection};

/// The difference that is allowed between the clock of a client and that of a server.
const SKEW: Duration = Duration::from_secs(5 * 60);

/// The time for which a record lives beyond the retention, so that it outlives the time in which its key may run: the client's clock
/// may be ahead when it makes the key, the key is accepted for a while after the retention, and the clocks of servers and store may
/// differ.
const OUTLIVES: Duration = Duration::from_secs(3 * SKEW.as_secs());

/// Returns the refusal of a call whose key is older than the retention, or from the future; `None` if the call may run. It is not
/// for calls whose outcome is recorded: they get it whatever the age of their keys.
pub(super) fn refusal(engine: &Engine, call: &Call) -> Option<Rejection> {
    let (made, now) = (time(call)?, engine.clock.now());
    if made > now + SKEW {
        return Some(match call.procedure.key_field() {
            Some(field) => Rejection::KeyFieldInvalid { field: field.to_owned(), key: InvalidKey::FromTheFuture },
            None => Rejection::KeyInvalid(InvalidKey::FromTheFuture),
        });
    }
    (now > made + call.procedure.policies().retention + SKEW).then_some(Rejection::KeyExpired)
}

/// Returns how long the record of a call lives.
pub(super) fn retention(call: &Call) -> Duration {
    let retention = call.procedure.policies().retention;
    if time(call).is_some() { retention + OUTLIVES } else { retention }
}

/// The time in the key, since the Unix epoch; `None` if it has none, or if the policy is not to look at it.
fn time(call: &Call) -> Option<Duration> {
    if call.procedure.policies().refuses_expired_keys() { call.reservation.key.time() } else { None }
}
