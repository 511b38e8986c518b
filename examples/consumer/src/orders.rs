//! The orders: events that are published, some of them twice.

use async_nats::jetstream::{Context, message::PublishMessage};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::{
    Error,
    billing::{OrderPlaced, OrderPlacedByCoupon},
    nats::SUBJECT,
};

/// How many publications wait for their acknowledgement at once.
const AT_ONCE: usize = 256;

/// The orders of a run: their number.
#[derive(Clone, Copy)]
pub(crate) struct Orders(pub(crate) u32);

impl Orders {
    /// Publishes the events: each once, every tenth again with its `Nats-Msg-Id`, by which the server drops it, and every tenth again without
    /// one, as by a producer that does not set it or that comes back after the stream's duplicate window.
    pub(crate) async fn publish(self, context: &Context) -> Result<(), Error> {
        let first = (0..self.0).map(|order| (order, true));
        let again = (0..self.0).filter_map(|order| match order % 10 {
            5 => Some((order, true)),
            7 => Some((order, false)),
            _ => None,
        });
        let publications = stream::iter(first.chain(again)).map(|(order, has_id)| publish(context, order, has_id));
        publications.buffer_unordered(AT_ONCE).try_collect().await
    }

    /// Returns the number of messages in the stream: the duplicates that the server knows are not there.
    pub(crate) fn messages(self) -> u64 {
        self.count(|_| true) + self.count(|order| order % 10 == 7)
    }

    /// Returns the number of poison orders, and of messages about them.
    pub(crate) fn poison(self) -> [u64; 2] {
        let poison = self.count(is_poison);
        [poison, poison + self.count(|order| is_poison(order) && order % 10 == 7)]
    }

    fn count(self, is: impl Fn(u32) -> bool) -> u64 {
        (0..self.0).filter(|order| is(*order)).count() as u64
    }
}

fn is_poison(order: u32) -> bool {
    order % 33 == 32
}

async fn publish(context: &Context, order: u32, has_id: bool) -> Result<(), Error> {
    let cents = if is_poison(order) { 0 } else { 100 + i64::from(order) };
    let event_id = format!("placed-{order}");
    let placed = OrderPlaced { event_id: event_id.clone(), order: format!("order-{order}"), cents };
    // The producer writes the new field before each worker knows it, and not in each event.
    let payload = match order % 2 {
        0 => serde_json::to_vec(&placed)?,
        _ => serde_json::to_vec(&OrderPlacedByCoupon { coupon: Some("spring".to_owned()), order: placed })?,
    };
    let message = PublishMessage::build().payload(payload.into());
    let message = if has_id { message.message_id(&event_id) } else { message };
    context.send_publish(SUBJECT, message).await?.await?;
    Ok(())
}
