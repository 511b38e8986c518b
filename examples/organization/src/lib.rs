//! FUN-15's world as a small service, `organization.v1`: projects, clusters, namespaces, API keys and invitations of one
//! organisation, in PostgreSQL under row-level security. Every create call takes an `Idempotency-Key`.
//!
//! | module | holds |
//! |---|---|
//! | [`proto`] | the service's messages, servers and clients |
//! | `server` | **how the idempotency layer is put around the services** |
//! | `protocols` | **how one port answers every protocol**, and lets in the pages of browsers |
//! | `services` | the handlers |
//! | `call` | what a create call comes with: its user, its key, its transaction |
//! | `auth` | JWT bearer tokens, the authenticated [`Caller`] |
//! | `database`, `fields`, `failure` | what handlers write with, what they check, what they answer when it fails |
//! | [`migrations`], `resource_types` | the sample's own tables, and which of them keys record |
//! | `bootstrap` | the API's role, the example's users, organisation and cluster |
//! | `outbox` | the worker that processes `authz.outbox` |
//! | `playground` | the page at `/` |
//! | `args`, `run`, `signals`, `ready`, `tour` | the command |

mod args;
mod auth;
mod bootstrap;
mod call;
mod database;
mod failure;
mod fields;
pub mod migrations;
mod outbox;
mod playground;
mod protocols;
mod ready;
mod resource_types;
mod run;
mod server;
mod services;
mod signals;
mod tour;

pub use args::{Args, LeasePolicyArg, ModeArg, StorePolicyArg};
pub use auth::Caller;
pub use bootstrap::{ALICE, BOB, CLUSTER, ORGANIZATION, bootstrap};
pub use database::{Database, pool};
pub use resource_types::resource_types;
pub use run::{Error, run};
pub use services::Projects;

/// The package `organization.v1`.
#[allow(missing_docs, reason = "generated code")]
pub mod proto {
    tonic::include_proto!("organization.v1");
}

/// The encoded descriptors of `organization.v1` and of all that it imports, with the option by which procedures opt in.
pub const FILE_DESCRIPTOR_SET: &[u8] = tonic::include_file_descriptor_set!("organization");
