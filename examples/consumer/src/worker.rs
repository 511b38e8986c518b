//! The worker. This is the code to copy, without its `faults`.

use std::time::Duration;

use async_nats::jetstream::{AckKind, Message, consumer::PullConsumer};
use futures_util::TryStreamExt as _;
use tonic_idempotency::{
    Caller, IdempotencyLayer, UserId,
    run::{Json, Operation},
};

use crate::{
    Error,
    billing::{CHARGE, OrderPlaced, Receipt, charge},
    faults::Faults,
};

/// How many orders a worker charges at once. It asks for no more messages: those that wait use up their ack-wait.
pub(crate) const AT_ONCE: usize = 16;

/// The least pause before a message is delivered again that was not handled.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);

/// Charges the orders of a consumer, for as long as it is connected.
pub(crate) async fn work(consumer: PullConsumer, layer: &IdempotencyLayer, faults: Faults) -> Result<(), Error> {
    let operation = &layer.operation(CHARGE)?;
    let billing = &Caller::new(UserId::from_text("billing")?);
    let messages = consumer.stream().max_messages_per_batch(AT_ONCE).messages().await?;
    let handled = messages.map_err(Error::from).try_for_each_concurrent(AT_ONCE, |message| async move {
        let ended = handle(operation, billing, &message, faults).await;
        if faults.lose_the_end_of(&message) {
            return Ok(());
        }
        message.ack_with(ended).await
    });
    handled.await
}

/// Handles a message, and returns what the queue is told of it: afterwards, never before.
async fn handle(
    operation: &Operation<Json<OrderPlaced, Receipt>>,
    billing: &Caller,
    message: &Message,
    faults: Faults,
) -> AckKind {
    let Ok(order) = serde_json::from_slice::<OrderPlaced>(&message.payload) else {
        return AckKind::Term;
    };
    let (key, request) = (order.event_id.clone(), order.clone());
    let ended = operation.run(billing, &key, &request, move |call| faults.slow_down(charge(call, order))).await;
    match ended {
        Ok(_receipt) => AckKind::Ack, // charged now, or before
        Err(error) => match error.retry_after() {
            Some(delay) => AckKind::Nak(Some(delay.max(PAUSE))),
            None => AckKind::Term, // a dead letter: each delivery would end like this one
        },
    }
}
