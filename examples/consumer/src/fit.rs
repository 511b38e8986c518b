//! The settings of a queue and of an operation that have to fit.

use std::time::Duration;

use async_nats::jetstream::{consumer, stream};

use crate::{
    Error,
    billing::{HELD, RETENTION},
};

/// The pause before a message is delivered again whose key another worker holds.
const PAUSE: Duration = Duration::from_secs(1);

/// Checks a stream and its consumer against the operation. A worker does it when it starts.
///
/// The ack-wait need not be longer than the lease (in transactional mode: than `transaction_idle`). A message that comes again while its key
/// is held is refused and comes once more. But each refusal is a delivery, so a limit of deliveries must not be reached before the key is free.
pub(crate) fn check(stream: &stream::Config, consumer: &consumer::Config) -> Result<(), Error> {
    let pause = PAUSE.min(consumer.ack_wait);
    if let Ok(deliveries @ 1..) = u32::try_from(consumer.max_deliver)
        && pause * (deliveries - 1) < HELD
    {
        return Err(format!(
            "{deliveries} deliveries, {pause:?} apart, may all be refused while a worker that hangs holds the key for {HELD:?}, and the \
             order would be lost: raise max_deliver, or -1 for no limit"
        )
        .into());
    }
    if stream.max_age.is_zero() || stream.max_age >= RETENTION {
        return Err(format!(
            "the stream keeps messages for longer than the layer its records ({RETENTION:?}): an order that is delivered after that would be \
             charged again; set max_age, or raise the retention"
        )
        .into());
    }
    Ok(())
}
