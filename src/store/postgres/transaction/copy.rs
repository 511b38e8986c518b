//! Copies data into and out of tables in a handler's transaction.

use std::{
    fmt, future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use futures_util::{Sink, Stream};
use tokio_postgres::Error;
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::{
    TransactionError,
    session::{PendingStatement, TransactionSession},
};
use crate::store::{
    TransactionErrorKind,
    driver::{InUse, Level},
};

/// A sink for the data of a `COPY … FROM STDIN` in a [`Transaction`](crate::Transaction), as
/// [`tokio_postgres::CopyInSink`].
///
/// The copy has to be completed with [`finish`](Self::finish) or `SinkExt::close`. If the sink is dropped before, or the
/// call ends, the copy fails.
///
/// ```
/// use bytes::Bytes;
/// use futures_util::SinkExt as _;
/// use std::pin::pin;
/// use tonic_idempotency::{Transaction, store::TransactionError};
///
/// async fn import(transaction: &Transaction, labels: Vec<String>) -> Result<u64, TransactionError> {
///     let mut sink = pin!(transaction.copy_in("COPY labels (name) FROM STDIN (FORMAT csv)").await?);
///     for label in labels {
///         sink.send(Bytes::from(format!("\"{}\"\n", label.replace('"', "\"\"")))).await?;
///     }
///     sink.finish().await
/// }
/// ```
pub struct CopyInSink<T> {
    copy: Copy<tokio_postgres::CopyInSink<T>>,
}

impl<T> CopyInSink<T>
where
    T: Buf + 'static + Send,
{
    pub(super) fn new(session: &Arc<TransactionSession>, level: Level, sink: tokio_postgres::CopyInSink<T>) -> Self {
        let mut copy = Copy::new(session, level, sink);
        // Until it is finished, dropping it makes it fail: nothing is unknown.
        copy.watched.answered = true;
        Self { copy }
    }

    /// A poll-based version of [`finish`](Self::finish).
    ///
    /// # Errors
    ///
    /// As [`finish`](Self::finish).
    pub fn poll_finish(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<u64, TransactionError>> {
        self.copy.watched.answered = false;
        let rows = ready!(self.copy.poll(cx, |sink, cx| sink.poll_finish(cx)))?;
        self.copy.watched.answered = true;
        Poll::Ready(Ok(rows))
    }

    /// Completes the copy, and returns the number of rows inserted.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] if the copy fails, or the call has ended.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, `finish` may be called again. If the sink is dropped then, the copy may have been
    /// completed or not.
    pub async fn finish(mut self: Pin<&mut Self>) -> Result<u64, TransactionError> {
        future::poll_fn(|cx| self.as_mut().poll_finish(cx)).await
    }
}

impl<T> Sink<T> for CopyInSink<T>
where
    T: Buf + 'static + Send,
{
    type Error = TransactionError;

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), TransactionError>> {
        self.copy.poll(cx, |sink, cx| sink.poll_ready(cx))
    }

    fn start_send(mut self: Pin<&mut Self>, item: T) -> Result<(), TransactionError> {
        let sent = self.copy.with(|sink| sink.start_send(item))?;
        sent.map_err(|error| self.copy.watched.failed(error))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), TransactionError>> {
        self.copy.poll(cx, |sink, cx| sink.poll_flush(cx))
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), TransactionError>> {
        self.poll_finish(cx).map_ok(drop)
    }
}

impl<T> fmt::Debug for CopyInSink<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CopyInSink").finish_non_exhaustive()
    }
}

/// A stream of the data of a `COPY … TO STDOUT` in a [`Transaction`](crate::Transaction), as
/// [`tokio_postgres::CopyOutStream`]. Other statements of the transaction wait until it is read to its end or dropped.
pub struct CopyOutStream {
    copy: Copy<tokio_postgres::CopyOutStream>,
}

impl CopyOutStream {
    pub(super) fn new(session: &Arc<TransactionSession>, level: Level, stream: tokio_postgres::CopyOutStream) -> Self {
        Self { copy: Copy::new(session, level, stream) }
    }
}

impl Stream for CopyOutStream {
    type Item = Result<Bytes, TransactionError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = ready!(self.copy.poll(cx, |stream, cx| stream.poll_next(cx).map(Option::transpose)));
        if matches!(next, Ok(None)) {
            self.copy.watched.answered = true;
        }
        Poll::Ready(next.transpose())
    }
}

impl fmt::Debug for CopyOutStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CopyOutStream").finish_non_exhaustive()
    }
}

/// A copy of tokio-postgres, which occupies the connection until it is dropped. The end of the call drops it, even if its
/// holder does not.
struct Copy<C> {
    inner: Arc<Mutex<Option<Pin<Box<C>>>>>,
    /// Wakes its holder.
    ended: Pin<Box<WaitForCancellationFutureOwned>>,
    watched: PendingStatement<Arc<TransactionSession>>,
    _in_use: InUse,
}

impl<C: Send + 'static> Copy<C> {
    fn new(session: &Arc<TransactionSession>, level: Level, copy: C) -> Self {
        let inner = Arc::new(Mutex::new(Some(Box::pin(copy))));
        let (dropped, ended) = (Arc::downgrade(&inner), session.ended().clone().cancelled_owned());
        tokio::spawn(async move {
            ended.await;
            if let Some(copy) = dropped.upgrade() {
                drop(lock(&copy).take());
            }
        });
        let ended = Box::pin(session.ended().clone().cancelled_owned());
        let watched = PendingStatement { session: Arc::clone(session), level, answered: false };
        Self { inner, ended, watched, _in_use: session.copies() }
    }

    /// Polls the copy, but not longer than the call lasts, and notes its error.
    fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(Pin<&mut C>, &mut Context<'_>) -> Poll<Result<T, Error>>,
    ) -> Poll<Result<T, TransactionError>> {
        if self.ended.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(TransactionErrorKind::Ended.into()));
        }
        match self.with(|copy| poll(copy, cx)) {
            Ok(polled) => polled.map_err(|error| self.watched.failed(error)),
            Err(ended) => Poll::Ready(Err(ended)),
        }
    }

    fn with<T>(&mut self, work: impl FnOnce(Pin<&mut C>) -> T) -> Result<T, TransactionError> {
        match &mut *lock(&self.inner) {
            Some(copy) => Ok(work(copy.as_mut())),
            None => Err(TransactionErrorKind::Ended.into()),
        }
    }
}

/// Ignores poisoning: a copy is used by one task, and dropped by another.
fn lock<C>(copy: &Mutex<Option<Pin<Box<C>>>>) -> MutexGuard<'_, Option<Pin<Box<C>>>> {
    copy.lock().unwrap_or_else(PoisonError::into_inner)
}
