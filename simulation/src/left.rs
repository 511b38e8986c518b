//! A client that goes before its answer.

use std::sync::Arc;

use tokio::{sync::Notify, task::yield_now};

/// Tells the server of a call that its client has gone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Left(Arc<Notify>);

impl Left {
    /// Has the client go, before whatever comes next.
    pub(crate) async fn leave(&self) {
        self.0.notify_one();
        yield_now().await;
    }

    /// Waits until it has gone.
    pub(crate) async fn noticed(&self) {
        self.0.notified().await;
    }
}
