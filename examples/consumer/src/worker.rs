//! The worker. This is the code to copy, without its `faults`.

use async_nats::jetstream::{AckKind, Message, consumer::PullConsumer};
use futures_util::TryStreamExt as _;
use tonic_idempotency::{
    Caller, IdempotencyLayer, UserId,
    run::{Json, Operation, Settlement},
};

use crate::{
    Error,
    billing::{BOOK, CHARGE, Event, Receipt, book, charge},
    faults::Faults,
};

/// How many orders a worker charges at once. It asks for no more messages: those that wait use up their ack-wait.
pub(crate) const AT_ONCE: usize = 16;

/// The operations on each event.
struct Worker<E> {
    billing: Caller,
    charge: Operation<Json<E, Receipt>>,
    book: Operation<Json<E, i64>>,
}

/// Charges and books the orders of a consumer, for as long as it is connected.
pub(crate) async fn work<E: Event>(
    consumer: PullConsumer,
    layer: &IdempotencyLayer,
    faults: Faults,
) -> Result<(), Error> {
    let worker = &Worker::<E> {
        billing: Caller::new(UserId::from_text("billing")?),
        charge: layer.operation(CHARGE)?,
        book: layer.operation(BOOK)?,
    };
    let messages = consumer.stream().max_messages_per_batch(AT_ONCE).messages().await?;
    let handled = messages.map_err(Error::from).try_for_each_concurrent(AT_ONCE, |message| async move {
        let settlement = worker.handle(&message, faults).await;
        if faults.lose_the_end_of(&message) {
            return Ok(());
        }
        // Afterwards, never before.
        message.ack_with(told(settlement)).await
    });
    handled.await
}

impl<E: Event> Worker<E> {
    /// Handles a message: each operation on it happens once, however often it is delivered.
    async fn handle(&self, message: &Message, faults: Faults) -> Settlement {
        let id = |event: &E| event.order().event_id.clone();
        let charge = move |call, event| faults.slow_down(charge(call, event));
        let charged = self.charge.receive(&self.billing, id, &message.payload, charge).await;
        match Settlement::of(&charged) {
            Settlement::Acknowledge => {
                let booked = self.book.receive(&self.billing, id, &message.payload, book).await;
                Settlement::of(&booked)
            }
            not_charged => not_charged,
        }
    }
}

/// Tells the queue.
fn told(settlement: Settlement) -> AckKind {
    match settlement {
        Settlement::Acknowledge => AckKind::Ack,
        Settlement::Redeliver { after } => AckKind::Nak(Some(after)),
        Settlement::DeadLetter(_cause) => AckKind::Term,
    }
}
