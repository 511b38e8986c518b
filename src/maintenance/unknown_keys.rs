//! Counts the keys without an outcome, for the gauge.

use std::{collections::HashSet, time::Duration};

use futures_util::{StreamExt as _, stream};
use tokio::time::Instant;

use crate::{
    caller::OwnerId,
    key::KeyId,
    store::{AbandonedQuery, CallSession, DynStore, KeyState, LookUp, StoreError, StoreErrorKind},
};

/// The largest number of keys that are counted.
const COUNTED: u32 = 1000;

/// The keys whose lease ended without an outcome, as far as they are known.
///
/// To search for all of them would be to read the whole table. Only the first search does that. Later ones read what is younger than the lookback, and
/// each key that was found before is looked up, until it has an outcome or is gone.
#[derive(Default)]
pub(super) struct UnknownKeys {
    /// In the order in which they were found, in which they are looked up.
    found: Vec<(OwnerId, KeyId)>,
    /// The time of the last search.
    searched: Option<Instant>,
}

impl UnknownKeys {
    /// Counts them anew, with at most `concurrency` look-ups at a time.
    pub(super) async fn count(
        &mut self,
        store: &dyn DynStore,
        procedures: &[String],
        lookback: Duration,
        concurrency: usize,
    ) -> Result<usize, StoreError> {
        let now = Instant::now();
        let query = AbandonedQuery {
            procedures: procedures.to_vec(),
            // Nor is a key missed that was abandoned while the store was away.
            lookback: self.searched.map(|searched| lookback.saturating_add(now - searched)),
            max_attempts: u32::MAX,
            batch: COUNTED,
        };
        let mut found: Vec<_> = store.abandoned(&query).await?.into_iter().map(|key| (key.owner, key.key)).collect();
        let mut count = found.len();
        let new: HashSet<_> = found.iter().copied().collect();
        let known: Vec<_> = self.found.iter().copied().filter(|key| !new.contains(key)).collect();
        let states = stream::iter(known.into_iter().map(|key| state(store, key))).buffered(concurrency.max(1));
        let states: Vec<_> = states.collect().await;
        for state in states {
            let (key, state) = state?;
            count += usize::from(state == KeyState::Unknown);
            // A retry may hold the key for now.
            if matches!(state, KeyState::Running | KeyState::Unknown) && found.len() < COUNTED as usize {
                found.push(key);
            }
        }
        (self.found, self.searched) = (found, Some(now));
        Ok(count.min(COUNTED as usize))
    }
}

async fn state(store: &dyn DynStore, id: (OwnerId, KeyId)) -> Result<((OwnerId, KeyId), KeyState), StoreError> {
    let (owner, key) = id;
    let question = LookUp { owner, key, session: CallSession::of_owner(owner), with_status: false };
    match store.look_up(&question).await {
        Ok(record) => Ok((id, record.state)),
        // A store without look-ups has no more to say of it.
        Err(error) if error.kind() == StoreErrorKind::Refused => Ok((id, KeyState::Absent)),
        Err(error) => Err(error),
    }
}
