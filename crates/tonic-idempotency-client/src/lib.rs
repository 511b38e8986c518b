//! Idempotency keys for tonic clients: each operation gets one key before its first attempt, and all its attempts carry it.
//!
//! ```no_run
//! use tonic::transport::Channel;
//! use tonic_idempotency_client::{IdempotencyClientLayer, Layer as _};
//!
//! # struct OrderServiceClient<T>(T);
//! # impl<T> OrderServiceClient<T> { fn new(channel: T) -> Self { Self(channel) } }
//! # fn make(channel: Channel, file_descriptor_set: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
//! let layer = IdempotencyClientLayer::new(file_descriptor_set)?; // the descriptors say which procedures take keys
//! let client = OrderServiceClient::new(layer.layer(channel));
//! # Ok(())
//! # }
//! ```
//!
//! | | is |
//! |---|---|
//! | [`IdempotencyClientLayer`], [`IdempotencyClientBuilder`] | the layer, and its settings |
//! | [`OperationKey`] | a key of the application's own, in the extensions of a request |
//! | [`Delivery`] | how a response came about: the attempts, and whether it is a replay |
//! | [`Unresolved`] | on an error: the call's outcome is unknown; holds the key to call again with |
//! | [`completed`] | waits for the end of the asynchronous work behind a response |
//! | [`journal`] | the operations that have not ended, on the disk: if the process dies, the next one sends them |
//! | [`telemetry`] | metrics and log lines |
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `redb` (default) | [`Journal::open`](journal::Journal::open), a journal in a file; without it, a store of your own |
//! | `seal` | [`JournalBuilder::seal`](journal::JournalBuilder::seal), a journal that only the holder of a key reads |
//!
//! The repository's `docs/client.md` lists the answers that are retried, and
//! shows deadlines, hedging and the journal.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

mod answered_call;
mod attempt;
mod client_call;
mod delivery;
mod description;
mod descriptor;
mod descriptors;
mod error;
mod expiry;
mod future;
mod head;
mod key;
mod key_field;
mod known_procedure;
mod layer;
mod operation_service;
mod peer;
mod pending_work;
mod permission;
mod procedure;
mod progress;
mod request_body;
mod service;
mod settings;
mod shared;
mod unresolved;
mod verdict;
mod work_error;

pub mod journal;
pub mod telemetry;

#[cfg(feature = "seal")]
pub use tonic_idempotency_wire::seal::{InvalidKey, Key};
pub use tonic_idempotency_wire::{IdempotencyStatus, Reason, proto};
#[doc(no_inline)]
pub use tower_layer::Layer;

pub use self::{
    attempt::ResponseBody,
    delivery::Delivery,
    descriptors::Descriptors,
    error::{BuildError, ProcedureError},
    future::ResponseFuture,
    key::OperationKey,
    layer::{IdempotencyClientBuilder, IdempotencyClientLayer},
    pending_work::{Completed, PendingWork, completed},
    progress::{Progress, ProgressEvent, ProgressStream},
    service::IdempotencyClient,
    unresolved::Unresolved,
    work_error::WorkError,
};

type BoxError = Box<dyn std::error::Error + Send + Sync>;
