use std::sync::Arc;

use rand::{Rng, seq::IndexedRandom as _};
use tokio::sync::watch;

use super::Backend;

/// The servers that take calls: what a load balancer knows.
#[derive(Debug, Default)]
pub(crate) struct Rotation {
    backends: watch::Sender<Vec<Arc<Backend>>>,
}

impl Rotation {
    /// A server takes calls.
    pub(super) fn add(&self, backend: Arc<Backend>) {
        self.backends.send_modify(|backends| backends.push(backend));
    }

    /// A server takes none any more.
    pub(super) fn remove(&self, backend: &Arc<Backend>) {
        self.backends.send_modify(|backends| backends.retain(|other| !Arc::ptr_eq(other, backend)));
    }

    /// Any of them, at random; waits until there is one.
    pub(crate) async fn any(&self, rng: &mut impl Rng) -> Arc<Backend> {
        let mut changes = self.backends.subscribe();
        loop {
            if let Some(backend) = changes.borrow_and_update().choose(rng) {
                return Arc::clone(backend);
            }
            // Its sender lives as long as this does.
            let _ = changes.changed().await;
        }
    }

    /// Those that there are at this moment.
    pub(crate) fn all(&self) -> Vec<Arc<Backend>> {
        self.backends.borrow().clone()
    }

    /// Waits until there are this many.
    pub(super) async fn filled(&self, servers: usize) {
        let _ = self.backends.subscribe().wait_for(|backends| backends.len() >= servers).await;
    }
}
