//! Idempotency keys for tonic clients: each operation has one key, made before its first attempt, and all its attempts have that.
//!
//! | module | holds |
//! |---|---|
//! | `layer` | the layer and its settings |
//! | `service`, `operation`, `future` | the control flow of a call |
//! | `captured`, `head` | a request, in a form that can be sent again |
//! | `key`, `key_field` | its key |
//! | `answer`, `verdict` | the answer of one attempt, and what it means |
//! | `unresolved` | what a caller is told of a call whose outcome is not known |
//! | `completion`, `progress`, `pending` | the end of the work behind a call |
//! | `peer` | the service that is called again |
//! | [`journal`] | the operations that have not ended, which a client that died sends when it is back |
//! | `settings` | the order of attempts |
//! | `descriptor`, `descriptors`, `procedure` | the procedures that take keys |
//! | [`telemetry`] | metrics and log lines |

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

mod answer;
mod captured;
mod completion;
mod delivery;
mod descriptor;
mod descriptors;
mod error;
mod future;
mod head;
mod key;
mod key_field;
mod layer;
mod operation;
mod peer;
mod pending;
mod procedure;
mod progress;
mod service;
mod settings;
mod unresolved;
mod verdict;

pub mod journal;
pub mod telemetry;

pub use tonic_idempotency_wire::{IdempotencyStatus, Reason, proto};

pub use self::{
    answer::ResponseBody,
    completion::{Completed, Completion, CompletionError, completed},
    delivery::Delivery,
    descriptors::Descriptors,
    error::{BuildError, ProcedureError},
    future::ResponseFuture,
    key::OperationKey,
    layer::{IdempotencyClientBuilder, IdempotencyClientLayer},
    progress::{Progress, ProgressEvent, ProgressStream},
    service::IdempotencyClient,
    unresolved::Unresolved,
};

type BoxError = Box<dyn std::error::Error + Send + Sync>;
