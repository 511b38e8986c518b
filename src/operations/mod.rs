//! The look-up of a call by its key: the service `idempotency.v1.OperationService`, off unless the application adds it to its server.
//!
//! A caller that has lost its message, or waits for asynchronous work, asks only by its key. It sees only its own calls: the service
//! finds the caller as the layer does, and asks the layer's store under the caller's row-level security.
//!
//! A client may also ask for the policies of a procedure. `tonic-idempotency-client` does so before it sends a call again to a server that has
//! not shown the layer: after `NOT_FOUND` it does not. The service knows the procedures of its own layer: if a proxy
//! routes it to one of several servers, clients take the answer of that one for all of them.
//!
//! ```
//! use tonic_idempotency::{IdempotencyLayer, store::MemoryStore};
//! # const FILE_DESCRIPTOR_SET: &[u8] = tonic_idempotency::proto::FILE_DESCRIPTOR_SET;
//!
//! # fn main() -> Result<(), tonic_idempotency::layer::BuildError> {
//! let idempotency = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET)
//!     .store(MemoryStore::new())
//!     # .allow_no_procedures()
//!     .build()?;
//! // Beside the services, behind the same authentication:
//! let routes = tonic::service::Routes::new(idempotency.operations().build());
//! # drop(routes);
//! # Ok(())
//! # }
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `builder` | [`OperationServiceBuilder`], the settings |
//! | `service` | [`OperationService`], its procedures |
//! | `question` | a caller's question for a key, and its answer at the moment |
//! | `wait`, `shared_question` | waiting for the end of a call, or of the work behind it; the question of all requests that wait for one key |
//! | `message` | the answer as a message |

mod builder;
mod message;
mod question;
mod service;
mod shared_question;
mod wait;

#[cfg(feature = "testing")]
pub(crate) use self::service::DESCRIBE;
pub use self::{builder::OperationServiceBuilder, service::OperationService};
