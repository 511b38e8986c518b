//! The SQL of the store: its statements, their parameters, and the rows that answer them.

mod begin_transaction;
mod columns;
mod questions;
mod row;
mod sql;
#[cfg(feature = "testing")]
mod texts;

#[cfg(feature = "testing")]
pub use self::texts::statements;
pub(super) use self::{
    begin_transaction::{WHO, begin},
    columns::{Columns, arrival_hash, on_foreign_reservation, on_lease_ended, request_hash, resource_column, settings},
    questions::{CLOCK, running},
    row::{RowOf, StatusColumns, abandoned_key, claim_outcome, column, corrupt, only_row, parse_status},
    sql::Sql,
};
