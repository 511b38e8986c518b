//! A request body that has to arrive within a time.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body::Frame;
use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};
use tonic::{Status, body::Body};

use crate::rejection::Rejection;

pin_project! {
    /// A body that fails if its end has not arrived within a time.
    pub(super) struct TimedBody {
        #[pin]
        body: Body,
        limit: Duration,
        #[pin]
        elapsed: Sleep,
    }
}

impl TimedBody {
    pub(super) fn new(body: Body, limit: Duration) -> Self {
        Self { body, limit, elapsed: sleep(limit) }
    }
}

impl http_body::Body for TimedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.project();
        if let Poll::Ready(frame) = this.body.poll_frame(cx) {
            return Poll::Ready(frame);
        }
        ready!(this.elapsed.poll(cx));
        Poll::Ready(Some(Err(Rejection::RequestTimeout { limit: *this.limit }.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}
