//! The handlers. They are plain tonic; all that they have to do with idempotency keys is where they write (see `database`), and
//! in `invites` how a call is reconciled whose process died.

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
pub(crate) use invites::{Invites, InvitesReconciler};
pub(crate) use namespaces::Namespaces;
pub use projects::Projects;

use crate::failure;

/// A column of a row, as the type that it has in the database.
fn column<'a, T: tokio_postgres::types::FromSql<'a>>(row: &'a Row, name: &str) -> Result<T, Status> {
    row.try_get(name).map_err(|error| failure::of_statement(&error))
}

/// A column that holds an id.
fn id(row: &Row, name: &str) -> Result<String, Status> {
    Ok(column::<Uuid>(row, name)?.to_string())
}

/// The column `created`.
fn created(row: &Row) -> Result<Option<Timestamp>, Status> {
    Ok(Some(column::<SystemTime>(row, "created")?.into()))
}
