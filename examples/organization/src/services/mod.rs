//! The handlers. They are plain tonic services. Only a few parts deal with idempotency: `database` chooses the transaction for
//! their writes, `invites` reconciles calls whose process died, and a node that registers itself (`clusters`) and the deletion of
//! a project (`projects`) are idempotent by themselves, for when the layer has forgotten the first call.

mod api_keys;
mod clusters;
mod invites;
mod namespaces;
mod projects;

use std::time::SystemTime;

use prost_types::Timestamp;
use tokio_postgres::Row;
use tonic::Status;
use uuid::Uuid;

pub(crate) use api_keys::ApiKeys;
pub(crate) use clusters::Clusters;
pub(crate) use invites::Invites;
pub use invites::InvitesReconciler;
pub(crate) use namespaces::Namespaces;
pub use projects::Projects;

use crate::failure;

/// Returns a column of a row.
fn column<'a, T: tokio_postgres::types::FromSql<'a>>(row: &'a Row, name: &str) -> Result<T, Status> {
    row.try_get(name).map_err(|error| failure::of_statement(&error))
}

/// Returns a column that holds an id, as text.
fn id(row: &Row, name: &str) -> Result<String, Status> {
    Ok(column::<Uuid>(row, name)?.to_string())
}

/// Returns the column `created`.
fn created(row: &Row) -> Result<Option<Timestamp>, Status> {
    Ok(Some(column::<SystemTime>(row, "created")?.into()))
}
