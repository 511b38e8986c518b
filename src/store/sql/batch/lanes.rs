//! The lanes of a store, one for each kind.

use std::{fmt, sync::Arc};

use super::{lane::Lane, look::Look, prediction::Prediction, write::Write};
use crate::store::sql::{connections::Connections, driver::ConnectionPool};

/// The default number of calls in one statement, and the limits of the setting.
const MAX_BATCH: usize = 64;
const MAX_BATCHES: [usize; 2] = [1, 1024];

/// The lanes of a store. Its clones share them.
#[derive(Clone)]
pub(in crate::store::sql) struct Lanes<D: ConnectionPool> {
    pub(in crate::store::sql) look: Lane<D, Look>,
    pub(in crate::store::sql) write: Lane<D, Write>,
    pub(in crate::store::sql) prediction: Arc<Prediction>,
    max_batch: usize,
}

impl<D: ConnectionPool> Lanes<D> {
    pub(in crate::store::sql) fn new(connections: &Connections<D>) -> Self {
        Self::with_max_batch(connections, MAX_BATCH)
    }

    pub(in crate::store::sql) fn with_max_batch(connections: &Connections<D>, max_batch: usize) -> Self {
        let [least, most] = MAX_BATCHES;
        let max_batch = max_batch.clamp(least, most);
        Self {
            look: Lane::new("look", connections, max_batch),
            write: Lane::new("write", connections, max_batch),
            prediction: Arc::default(),
            max_batch,
        }
    }

    /// Returns whether calls may share statements.
    pub(in crate::store::sql) fn are_on(&self) -> bool {
        self.max_batch > 1
    }

    /// Makes lanes for connections with other settings: the calls of a lane share statements.
    pub(in crate::store::sql) fn on(&self, connections: &Connections<D>) -> Self {
        Self::with_max_batch(connections, self.max_batch)
    }
}

impl<D: ConnectionPool> fmt::Debug for Lanes<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lanes").field("max_batch", &self.max_batch).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{super::fake::Fake, *};

    #[test]
    fn take_the_nearest_number_of_calls_that_is_allowed() {
        let connections = Connections::new(Fake::new(), Arc::default());
        let taken = [0, 1, 64, 1024, 1025, usize::MAX].map(|calls| {
            let lanes = Lanes::with_max_batch(&connections, calls);
            (lanes.max_batch, lanes.on(&connections).max_batch)
        });
        assert_eq!(taken, [1, 1, 64, 1024, 1024, 1024].map(|calls| (calls, calls)));
    }
}
