//! The same guarantee for whatever is delivered at least once and is no gRPC call: messages of a queue, jobs, webhooks.
//!
//! An [`Operation`] is declared in the layer's builder as a procedure is, with the same policies, and [`Operation::run`] does what the layer
//! does around a handler: the same engine, table, limits, metrics and shutdown.
//!
//! ```
//! use std::convert::Infallible;
//!
//! use tonic_idempotency::{
//!     Caller, IdempotencyLayer, UserId,
//!     policy::{KeyFormat, Procedure},
//!     run::{Bytes, Outcome},
//!     store::MemoryStore,
//! };
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let layer = IdempotencyLayer::builder([])
//!     .store(MemoryStore::new())
//!     .procedure(Procedure::operation("billing.v1/ChargeOrder").key_format(KeyFormat::Any))
//!     .build()?;
//! let charge = layer.operation::<Bytes>("billing.v1/ChargeOrder")?;
//!
//! let billing = Caller::new(UserId::from_text("billing")?);
//! for delivery in [1, 2] {
//!     // The key is the id of the message, which each delivery has.
//!     let outcome = charge.run(&billing, "order-17", b"EUR 12", move |_call| async move {
//!         assert_eq!(delivery, 1, "charged once");
//!         Ok::<_, Infallible>(b"receipt".to_vec())
//!     });
//!     assert_eq!(outcome.await?.into_inner(), b"receipt");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # A consumer
//!
//! It acknowledges after the run, never before: a delivery that is lost in between is replayed. Its acknowledgement deadline has to be longer
//! than a handler usually takes; a redelivery of one that still runs is refused, and comes again.
//!
//! ```
//! # use tonic_idempotency::run::{Outcome, RunError};
//! # struct Message; impl Message { fn ack(self) {} fn retry(self, _: std::time::Duration) {} fn discard(self, _: String) {} }
//! # fn settle<T, E>(message: Message, ended: Result<Outcome<T>, RunError<E>>) {
//! match ended {
//!     Ok(_) => message.ack(),
//!     Err(error) => match error.retry_after() {
//!         Some(delay) => message.retry(delay), // a negative acknowledgement, with the queue's own pauses and limits
//!         None => message.discard(error.to_string()), // to the dead letters
//!     },
//! }
//! # }
//! ```
//!
//! Many messages at once are a joined list of runs: operations that run at once share statements.
//!
//! | where | the key | the caller |
//! |---|---|---|
//! | a queue | the message's id; of an event that several services get, each has its own operation | the service, or the tenant in the message |
//! | a job of a scheduler on several machines | the job and its due time, such as `nightly-report/2026-11-27` | the service |
//! | a webhook | the provider's event id | the provider |
//! | an item of a batch | [`downstream`](crate::IdempotencyKey::downstream) of the batch's key | the batch's caller |
//!
//! # Modules
//!
//! | module | contents |
//! |---|---|
//! | `operation` | [`Operation`], and how it is run |
//! | `call` | [`Call`]: the handler's side |
//! | `codec`, `finite` | [`Codec`]: how requests are hashed, and outcomes stored; the numbers that JSON does not have |
//! | `handler_error` | [`HandlerError`]: which errors end an operation |
//! | `outcome`, `error` | [`Outcome`], [`RunError`], [`OperationError`] |
//! | `answer` | the engine's answers, in these types |

mod answer;
mod call;
#[cfg(feature = "json")]
mod canonical_json;
mod codec;
mod error;
#[cfg(feature = "json")]
mod finite;
mod handler_error;
mod operation;
mod outcome;
mod settlement;

#[cfg(feature = "json")]
pub use self::codec::Json;
pub use self::{
    call::Call,
    codec::{Bytes, Codec, CodecError, Prost},
    error::{OperationError, RunError},
    handler_error::HandlerError,
    operation::Operation,
    outcome::Outcome,
    settlement::{DeadLetter, Settlement},
};
