//! Load balancing.

use std::sync::Arc;

use rand::{Rng, seq::IndexedRandom as _};
use tokio::sync::watch;

use super::Backend;

/// The servers that take calls, as a load balancer knows them.
#[derive(Debug, Default)]
pub(crate) struct Rotation {
    backends: watch::Sender<Vec<Arc<Backend>>>,
}

impl Rotation {
    /// Adds a server.
    pub(super) fn add(&self, backend: Arc<Backend>) {
        self.backends.send_modify(|backends| backends.push(backend));
    }

    /// Removes a server.
    pub(super) fn remove(&self, backend: &Arc<Backend>) {
        self.backends.send_modify(|backends| backends.retain(|other| !Arc::ptr_eq(other, backend)));
    }

    /// Returns a random server; waits until there is one.
    pub(crate) async fn any(&self, rng: &mut impl Rng) -> Arc<Backend> {
        let mut changes = self.backends.subscribe();
        loop {
            if let Some(backend) = changes.borrow_and_update().choose(rng) {
                return Arc::clone(backend);
            }
            // Does not fail: the sender lives as long as `self`.
            let _ = changes.changed().await;
        }
    }

    /// The servers that take calls at this moment.
    pub(crate) fn all(&self) -> Vec<Arc<Backend>> {
        self.backends.borrow().clone()
    }

    /// Waits until there are this many servers.
    pub(super) async fn filled(&self, servers: usize) {
        let _ = self.backends.subscribe().wait_for(|backends| backends.len() >= servers).await;
    }
}
