//! The sample: a small service, `organization.v1`, with the projects, clusters, namespaces, API keys and invitations of
//! organisations, in PostgreSQL under row-level security. Every create call takes an `Idempotency-Key`.
//!
//! | module | content |
//! |---|---|
//! | [`proto`] | the service's messages, servers and clients |
//! | `server`, `guard` | **how the idempotency layer is added to the services** |
//! | `protocols` | **how one port serves every protocol**, and web pages |
//! | `services` | the handlers |
//! | `call` | the context of a call that writes: its user and its key, and the steps that it passes |
//! | `auth` | JWT bearer tokens, the authenticated [`Caller`] |
//! | `database`, `fields`, `failure` | the handlers' database access, validation and error statuses |
//! | `on_tokio_postgres` | **the pools, the store and the services on tokio-postgres**; `examples/drivers` has a service on each other driver |
//! | `driver` | what the fault harness replaces, to run the sample on the other drivers |
//! | `lost_answer` | answers that do not arrive, to show what a client does then |
//! | `api_token` | the tokens of API keys |
//! | [`migrations`], `resource_types` | the sample's own tables, and the resource types whose creation is recorded |
//! | `bootstrap` | the API's role, the example's users, organisation and cluster |
//! | `outbox` | the worker that processes `authz.outbox` |
//! | `playground`, `hosts` | the page at `/`, and the hosts that it answers for |
//! | `health`, `metrics`, `observed` | what a platform asks: whether it serves, `/metrics` for Prometheus, a span and the time of each call |
//! | `args`, `overrides`, `run`, `signals`, `ready`, `tour` | the command: its arguments, its start and end, and the calls that it prints |

mod api_token;
mod args;
mod auth;
mod bootstrap;
mod call;
mod database;
mod driver;
mod error;
mod failure;
mod fields;
mod guard;
mod health;
mod hosts;
mod lost_answer;
mod metrics;
pub mod migrations;
mod observed;
mod on_tokio_postgres;
mod outbox;
mod overrides;
mod playground;
mod protocols;
mod ready;
mod resource_types;
mod run;
mod server;
mod services;
mod signals;
mod statement;
mod tour;

pub use args::{Args, LeasePolicyArg, ModeArg, StorePolicyArg};
pub use auth::Caller;
pub use bootstrap::{ALICE, BOB, CLUSTER, EXTERNAL_USER, ORGANIZATION, OTHER_ORGANIZATION, bootstrap};
pub use call::{Call, step, wait};
pub use database::{API_ROLE, Database, LOGIN_ROLE, pool};
pub use driver::{ApiDatabase, Driver, set_up};
pub use error::Error;
pub use guard::Guard;
pub use on_tokio_postgres::TokioPostgres;
pub use overrides::Overrides;
pub use resource_types::resource_types;
pub use run::{run, run_on};
pub use services::{InvitesReconciler, Projects};

/// The package `organization.v1`.
#[allow(missing_docs, reason = "generated code")]
pub mod proto {
    tonic::include_proto!("organization.v1");
}

/// The encoded descriptors of `organization.v1` and its imports, with the option by which procedures opt in.
pub const FILE_DESCRIPTOR_SET: &[u8] = tonic::include_file_descriptor_set!("organization");
