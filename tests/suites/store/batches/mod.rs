//! Statements for several calls at once (`V5__shared.sql`), called as the store calls them, by the API's own role.

mod isolation;
mod locks;
mod outcomes;
mod plans;
pub(crate) mod statements;
