//! The same guarantee for whatever is delivered at least once and is no gRPC call: messages of a queue, jobs, webhooks.
//!
//! An [`Operation`] is declared in the layer's builder as a procedure is, with the same policies, and [`Operation::receive`] does what the
//! layer does around a handler: the same engine, table, limits, metrics and shutdown.
//!
//! ```
//! use std::convert::Infallible;
//!
//! use tonic_idempotency::{
//!     Caller, IdempotencyLayer, UserId,
//!     policy::Procedure,
//!     run::{Bytes, Settlement},
//!     store::MemoryStore,
//! };
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let layer = IdempotencyLayer::builder([])
//!     .store(MemoryStore::new())
//!     .procedure(Procedure::operation("billing.v1/ChargeOrder"))
//!     .build()?;
//! let charge = layer.operation::<Bytes>("billing.v1/ChargeOrder")?;
//!
//! let billing = Caller::new(UserId::from_text("billing")?);
//! for delivery in [1, 2] {
//!     let handler = move |_call, _message| async move {
//!         assert_eq!(delivery, 1, "charged once");
//!         Ok::<_, Infallible>(b"receipt".to_vec())
//!     };
//!     // The id of the message, which each delivery has, and its bytes.
//!     let ended = charge.receive(&billing, |_| "order-17", b"EUR 12", handler).await;
//!     assert_eq!(Settlement::of(&ended), Settlement::Acknowledge);
//!     assert_eq!(ended?.into_inner(), b"receipt");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A consumer acknowledges after the run, never before: a delivery that is lost in between is replayed. `docs/consumers.md` in the repository has
//! the settings of queues that have to fit.
//!
//! | where | the id | the caller |
//! |---|---|---|
//! | a queue | the event's id; each operation on it has its own key | the service, or the tenant in the message |
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
//! | `codec` | [`Codec`]: how requests are read and hashed, and outcomes stored |
//! | `canonical_json`, `finite` | the form of JSON that is hashed; the numbers that JSON does not have |
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

#[cfg(feature = "json")]
pub use self::codec::Json;
pub use self::{
    call::Call,
    codec::{Bytes, Codec, CodecError, Prost},
    error::{OperationError, RunError},
    handler_error::HandlerError,
    operation::Operation,
    outcome::Outcome,
};
pub use crate::settlement::{DeadLetter, Settlement};
