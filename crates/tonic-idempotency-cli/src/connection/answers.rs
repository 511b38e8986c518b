//! The meaning of the errors of the database, and the remedies.

use std::{error::Error as _, fmt};

use tokio_postgres::{Error, error::SqlState};
use tonic_idempotency::store::Schema;

use crate::failure::Failure;

/// The role that a command is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Role {
    Api,
    Operator,
}

pub(super) fn silent() -> Failure {
    Failure::NoAnswer("the database does not answer".to_owned())
}

pub(super) fn unknown(cause: &dyn fmt::Display) -> Failure {
    Failure::NoAnswer(format!("the database's functions are of another version than this program: {cause}"))
}

/// Returns the failure that an error is.
pub(super) fn failure_of(error: &Error, schema: &Schema, role: Role) -> Failure {
    let Some(answer) = error.as_db_error() else {
        return Failure::NoAnswer(format!("the database cannot be asked: {}", chain(error)));
    };
    let said = match answer.hint() {
        Some(hint) => format!("{}\n{hint}", answer.message()),
        None => answer.message().to_owned(),
    };
    let code = answer.code();
    if *code == SqlState::INSUFFICIENT_PRIVILEGE {
        // One with a hint is of our own functions, and no grant helps.
        return Failure::Right(if answer.hint().is_some() { said } else { format!("{said}\n{}", grant(schema, role)) });
    }
    if [SqlState::UNDEFINED_FUNCTION, SqlState::INVALID_SCHEMA_NAME, SqlState::UNDEFINED_TABLE].contains(code) {
        return Failure::NoAnswer(format!(
            "the schema {} is not migrated, or not by this version: {}\nRun its migrations (tonic-idempotency migrations writes them), or name another --schema.",
            schema.name(),
            answer.message()
        ));
    }
    match code.code().get(..2) {
        Some("08" | "53" | "57" | "58" | "XX") => Failure::NoAnswer(format!("the database cannot be asked: {said}")),
        Some("25") => Failure::NoAnswer(format!("the database is read-only, a standby perhaps: {said}")),
        Some("28" | "3D") => Failure::Input(format!("DATABASE_URL, or PGPASSWORD: {said}")),
        Some("40" | "55") => Failure::Findings(format!("another transaction was first: {said}")),
        _ => Failure::Input(said),
    }
}

/// Returns what grants the role of a command its rights.
fn grant(schema: &Schema, role: Role) -> String {
    let function = match role {
        Role::Api => "grant",
        Role::Operator => "grant_operator",
    };
    format!(
        "Run as the owner of the table: SELECT \"{}\".idempotency_{function}('…'), with the role of DATABASE_URL.",
        schema.name()
    )
}

/// Returns an error with its causes.
pub(super) fn chain(error: &Error) -> String {
    let mut said = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        said = format!("{said}: {error}");
        source = error.source();
    }
    said
}
