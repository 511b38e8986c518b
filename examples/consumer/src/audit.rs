//! The count at the end.

use std::collections::BTreeSet;

use async_nats::jetstream::stream::Stream;
use serde::Deserialize;

use crate::{Error, database, orders::Orders};

/// The part of the server's advice about a terminated message that tells which one it is.
#[derive(Deserialize)]
struct Terminated {
    stream_seq: u64,
}

/// A row of the table: what was counted, how many there have to be, and how many there are.
pub(crate) type Row = (&'static str, u64, u64);

/// Counts the orders by what has become of them.
pub(crate) async fn count(orders: Orders, url: &str, dead_letters: &mut Stream) -> Result<[Row; 6], Error> {
    let [once, often] = database::count(url, "charges").await?.map(i64::unsigned_abs);
    let [booked, booked_often] = database::count(url, "bookings").await?.map(i64::unsigned_abs);
    let [poison, poison_messages] = orders.poison();
    let good = u64::from(orders.0) - poison;
    Ok([
        ("orders billed once", good, once),
        ("orders billed twice", 0, often),
        ("orders lost", 0, good.saturating_sub(once + often)),
        ("orders booked once", good, booked),
        ("orders booked twice", 0, booked_often),
        ("poison messages terminated", poison_messages, terminated(dead_letters).await?),
    ])
}

/// Returns how many messages are among the dead letters. One may be terminated twice, if the server sends it again meanwhile.
async fn terminated(dead_letters: &mut Stream) -> Result<u64, Error> {
    let last = dead_letters.info().await?.state.last_sequence;
    let mut messages = BTreeSet::new();
    for sequence in 1..=last {
        let advice = dead_letters.get_raw_message(sequence).await?;
        messages.insert(serde_json::from_slice::<Terminated>(&advice.payload)?.stream_seq);
    }
    Ok(messages.len() as u64)
}
