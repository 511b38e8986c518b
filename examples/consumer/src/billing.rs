//! The operation: an order is charged.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio_postgres::types::Type;
use tonic_idempotency::{
    IdempotencyLayer, Transaction,
    layer::BuildError,
    policy::{FinalErrors, KeyFormat, Mode, Procedure},
    run::{Call, HandlerError},
    store::{PostgresStore, TransactionError},
};

/// The name of the operation.
pub(crate) const CHARGE: &str = "billing.v1/ChargeOrder";

/// How long an order's record lives: longer than its message.
pub(crate) const RETENTION: Duration = Duration::from_secs(24 * 3600);

/// How long a worker that hangs in its handler keeps the key of its order.
pub(crate) const HELD: Duration = Duration::from_secs(60);

/// The event: an order was placed.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct OrderPlaced {
    /// The same in each message about this event. A message's own number is not: it may be published twice.
    pub(crate) event_id: String,
    pub(crate) order: String,
    pub(crate) cents: i64,
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
    let charge = Procedure::operation(CHARGE)
        .mode(Mode::Transactional)
        .key_format(KeyFormat::Any)
        .retention(RETENTION)
        .transaction_idle(HELD);
    IdempotencyLayer::builder([]).store(store).procedure(charge).build()
}

/// Charges an order, in the transaction of its record. It would do so again: nothing here looks for an earlier charge.
pub(crate) async fn charge(call: Call, order: OrderPlaced) -> Result<Receipt, ChargeError> {
    let transaction = Transaction::from_extensions(call.extensions())?;
    let insert = "INSERT INTO charges (order_id, cents) VALUES ($1, $2) RETURNING id";
    let charge = transaction.query_typed_one(insert, &[(&order.order, Type::TEXT), (&order.cents, Type::INT8)]).await?;
    match order.cents > 0 {
        true => Ok(Receipt { charge: charge.get("id") }),
        false => Err(ChargeError::NoAmount), // its row is rolled back, and the error kept
    }
}
