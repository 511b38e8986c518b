//! The faults of a worker, beside being killed.

use std::time::Duration;

use async_nats::jetstream::Message;
use clap::Args;
use tokio::time;

/// Of as many messages, one is not acknowledged.
const LOST: u64 = 25;

/// The faults of a worker.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Faults {
    /// Take this many milliseconds longer for each order.
    #[arg(long, hide = true, default_value_t = 0)]
    pub(crate) slow: u64,
}

impl Faults {
    pub(crate) async fn slow_down<T>(self, handler: impl Future<Output = T>) -> T {
        let ended = handler.await;
        time::sleep(Duration::from_millis(self.slow)).await;
        ended
    }

    /// Whether the first acknowledgement of this message is lost.
    pub(crate) fn lose_the_end_of(self, message: &Message) -> bool {
        message.info().is_ok_and(|info| info.delivered == 1 && info.stream_sequence % LOST == 0)
    }
}
