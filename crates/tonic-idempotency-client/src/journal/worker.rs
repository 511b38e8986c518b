//! Working off the entries in the background.

use std::{future::pending, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body as HttpBody;
use tokio::{
    sync::{Semaphore, oneshot},
    task::{JoinHandle, JoinSet},
    time::{sleep_until, timeout},
};
use tonic::body::Body;
use tower_service::Service;

use super::{index::TakeDueOutcome, inner::Inner, resume::one};
use crate::BoxError;

/// The time after which an unanswered entry gives its place to the next, and the most entries under way, as a multiple of the journal's
/// parallelism. So a few procedures that hang do not block the others.
const SLOW: Duration = Duration::from_secs(1);
const MOST: usize = 8;

/// Sends the entries of a journal in the background. Ends when dropped: entries that are under way stay in the journal.
#[derive(Debug)]
#[must_use = "it ends when it is dropped"]
pub struct Worker {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Worker {
    pub(super) fn spawn<S, B>(journal: Arc<Inner>, service: S) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send,
        S::Error: Into<BoxError>,
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let (stop, stopped) = oneshot::channel();
        Self { stop: Some(stop), task: tokio::spawn(work(journal, service, stopped)) }
    }

    /// Sends nothing more, and waits for the answers of the entries that are under way.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the worker at once.
    pub async fn shut_down(mut self) {
        self.stop = None;
        // It fails if the task panicked, which has been reported.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn work<S, B>(journal: Arc<Inner>, service: S, mut stopped: oneshot::Receiver<()>)
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let mut under_way = JoinSet::new();
    let places = Arc::new(Semaphore::new(journal.settings.parallelism));
    let most = journal.settings.parallelism.saturating_mul(MOST);
    loop {
        let changed = journal.index.changed();
        let mut changed = std::pin::pin!(changed);
        changed.as_mut().enable();
        let (mut next, mut has_place) = (None, true);
        while under_way.len() < most {
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                has_place = false;
                break;
            };
            match journal.index.take_due() {
                TakeDueOutcome::Taken { id, taken } => {
                    let (journal, service) = (Arc::clone(&journal), service.clone());
                    under_way.spawn(async move {
                        let mut sent = std::pin::pin!(one(&journal, id, taken, service));
                        if timeout(SLOW, &mut sent).await.is_err() {
                            drop(place);
                            sent.await;
                        }
                    });
                }
                TakeDueOutcome::NoneDue { next: due } => {
                    next = due;
                    break;
                }
            }
        }
        let next = async {
            match next {
                Some(due) => sleep_until(due).await,
                None => pending().await,
            }
        };
        tokio::select! {
            // In a fixed order, so that a simulated run can be repeated.
            biased;
            _ = &mut stopped => break,
            Some(_) = under_way.join_next() => {}
            () = changed, if has_place => {}
            _ = places.acquire(), if !has_place => {}
            () = next => {}
        }
    }
    while under_way.join_next().await.is_some() {}
}
