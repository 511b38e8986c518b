//! The operations: an order is charged, and its price is booked.

use std::time::Duration;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use thiserror::Error;
use tokio_postgres::types::Type;
use tonic_idempotency::{
    IdempotencyLayer, Transaction,
    layer::BuildError,
    policy::{FinalErrors, Mode, Procedure},
    run::{Call, HandlerError},
    store::{PostgresStore, TransactionError},
};

/// The names of the operations: both get each event.
pub(crate) const CHARGE: &str = "billing.v1/ChargeOrder";
pub(crate) const BOOK: &str = "accounting.v1/BookOrder";

/// How long an order's record lives: longer than its message.
pub(crate) const RETENTION: Duration = Duration::from_secs(24 * 3600);

/// How long a worker that hangs in its handler keeps the key of its order.
pub(crate) const HELD: Duration = Duration::from_secs(60);

/// The event, as a release of the service knows it.
pub(crate) trait Event: DeserializeOwned + Serialize + Clone + Send + 'static {
    fn order(&self) -> &OrderPlaced;
}

/// The event: an order was placed.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct OrderPlaced {
    /// The same in each message about this event. A message's own number is not: it may be published twice.
    pub(crate) event_id: String,
    pub(crate) order: String,
    pub(crate) cents: i64,
}

/// The event, as the next release knows it: with one field more, which older messages do not have.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct OrderPlacedByCoupon {
    pub(crate) coupon: Option<String>,
    #[serde(flatten)]
    pub(crate) order: OrderPlaced,
}

impl Event for OrderPlaced {
    fn order(&self) -> &OrderPlaced {
        self
    }
}

impl Event for OrderPlacedByCoupon {
    fn order(&self) -> &OrderPlaced {
        &self.order
    }
}

/// The response, which each later delivery gets.
#[derive(Serialize, Deserialize)]
pub(crate) struct Receipt {
    pub(crate) charge: i64,
}

/// The reason why an order is not charged.
#[derive(Debug, Error)]
pub(crate) enum ChargeError {
    #[error("an order has to cost something")]
    NoAmount,
    #[error(transparent)]
    Database(#[from] TransactionError),
}

impl HandlerError for ChargeError {
    /// An order that costs nothing never will: a poison message.
    fn to_final(&self, _codes: &FinalErrors) -> Option<Vec<u8>> {
        matches!(self, Self::NoAmount).then(Vec::new)
    }

    fn from_final(_stored: &[u8]) -> Option<Self> {
        Some(Self::NoAmount)
    }
}

/// The layer of a worker.
pub(crate) fn layer(store: PostgresStore) -> Result<IdempotencyLayer, BuildError> {
    let operation =
        |name| Procedure::operation(name).mode(Mode::Transactional).retention(RETENTION).transaction_idle(HELD);
    IdempotencyLayer::builder([]).store(store).procedure(operation(CHARGE)).procedure(operation(BOOK)).build()
}

/// Charges an order, in the transaction of its record. It would do so again: nothing here looks for an earlier charge.
pub(crate) async fn charge(call: Call, event: impl Event) -> Result<Receipt, ChargeError> {
    let order = event.order();
    let charge = insert(&call, "INSERT INTO charges (order_id, cents) VALUES ($1, $2) RETURNING id", order).await?;
    match order.cents > 0 {
        true => Ok(Receipt { charge }),
        false => Err(ChargeError::NoAmount), // its row is rolled back, and the error kept
    }
}

/// Books the price of an order, likewise.
pub(crate) async fn book(call: Call, event: impl Event) -> Result<i64, TransactionError> {
    insert(&call, "INSERT INTO bookings (order_id, cents) VALUES ($1, $2) RETURNING id", event.order()).await
}

async fn insert(call: &Call, statement: &str, order: &OrderPlaced) -> Result<i64, TransactionError> {
    let transaction = Transaction::from_extensions(call.extensions())?;
    let row = transaction.query_typed_one(statement, &[(&order.order, Type::TEXT), (&order.cents, Type::INT8)]).await?;
    Ok(row.get("id"))
}
