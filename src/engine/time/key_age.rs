//! The age of a key, by the time in it: a call whose key has expired does not run.

use std::time::Duration;

use crate::{
    key::{InvalidKey, KeyId},
    policy::Procedure,
    rejection::Rejection,
};

/// The difference that is allowed between the clock of a client and that of a server.
const SKEW: Duration = Duration::from_secs(5 * 60);

/// The time for which a record lives beyond the retention, so that it outlives the time in which its key may run: the client's clock
/// may be ahead when it makes the key, the key is accepted for a while after the retention, and the clocks of servers and store may
/// differ.
const OUTLIVES: Duration = Duration::from_secs(3 * SKEW.as_secs());

/// Returns the rejection of a call whose key is older than the retention, or from the future; `None` if the call may run. It is not
/// for calls whose outcome is recorded: they get it whatever the age of their keys. `now` is the time since the Unix epoch.
pub(in crate::engine) fn rejection(procedure: &Procedure, key: KeyId, now: Duration) -> Option<Rejection> {
    let made = time(procedure, key)?;
    if made > now + SKEW {
        return Some(match procedure.key_field() {
            Some(field) => Rejection::KeyFieldInvalid { field: field.to_owned(), key: InvalidKey::FromTheFuture },
            None => Rejection::KeyInvalid(InvalidKey::FromTheFuture),
        });
    }
    (now > made + procedure.policies().retention + SKEW).then_some(Rejection::KeyExpired)
}

/// Returns how long the record of a call with this key lives.
pub(in crate::engine) fn retention(procedure: &Procedure, key: KeyId) -> Duration {
    let retention = procedure.policies().retention;
    if time(procedure, key).is_some() { retention + OUTLIVES } else { retention }
}

/// Returns the time in the key, since the Unix epoch; `None` if it has none, or if the policy is not to look at it.
fn time(procedure: &Procedure, key: KeyId) -> Option<Duration> {
    if procedure.policies().refuses_expired_keys() { key.time() } else { None }
}
