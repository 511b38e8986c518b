//! The look-up of the store in memory.

use std::time::SystemTime;

use tokio::time::Instant;

use super::{record::Record, state::State};
use crate::{
    status::OutboxStatus,
    store::{KeyRecord, KeyState, LookUp, StoredResponse},
};

/// Returns what is known of a key. Changes nothing.
pub(super) fn look_up(state: &State, look_up: &LookUp) -> KeyRecord {
    let (now, id) = (state.now(), (look_up.owner, look_up.key));
    let is_held = state.holds.get(&id).is_some_and(|hold| hold.idle_until > now);
    let Some(record) = state.records.get(&id) else {
        return KeyRecord::new(if is_held { KeyState::Running } else { KeyState::Absent });
    };
    let found = match (&record.outcome, record.is_live(now)) {
        (_, false) if is_held => return KeyRecord::new(KeyState::Running),
        (_, false) => KeyState::Expired,
        (Some((StoredResponse::Error(_), _)), _) => KeyState::Failed,
        (Some(_), _) => KeyState::Completed,
        (None, _) if is_held || !record.lease_left(now).is_zero() => KeyState::Running,
        (None, _) => KeyState::Unknown,
    };
    let resource = match &record.outcome {
        Some((_, resource)) if found == KeyState::Completed => resource.clone(),
        _ => None,
    };
    let known = resource.as_ref().filter(|_| look_up.with_status);
    let status = known.and_then(|known| state.statuses.get(&known.id).copied().unwrap_or(Some(OutboxStatus::Pending)));
    KeyRecord { resource, status: Ok(status), ..times(record, found, now) }
}

fn times(record: &Record, state: KeyState, now: Instant) -> KeyRecord {
    let wall = SystemTime::now();
    let at = |time: Instant| match time.checked_duration_since(now) {
        Some(later) => wall.checked_add(later),
        None => wall.checked_sub(now.duration_since(time)),
    };
    KeyRecord {
        procedure: Some(record.procedure.clone()),
        created: at(record.created),
        completed: record.completed.and_then(at),
        expires: at(record.expires),
        ..KeyRecord::new(state)
    }
}
