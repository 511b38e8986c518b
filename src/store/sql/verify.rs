//! Checks of the database before the first call.

use std::fmt;

use super::{
    asked::Reset,
    connection::Connections,
    driver::{Connection as _, Driver, Row, Statement},
    operation::Operation,
    row::{column, corrupt},
};
use crate::{
    status::IdKind,
    store::{ResourceTypes, StoreError},
    telemetry,
};

/// The version of the functions that the store calls, as `tenant.idempotency_version()` returns it.
const VERSION: i32 = 6;

/// The names in the statement are PostgreSQL's own, whatever the role's search_path is.
const BEGIN: &str = "BEGIN READ ONLY; SET LOCAL search_path = pg_catalog, pg_temp";

/// Returns everything that is wrong with the database, as the role of the pool sees it.
pub(super) async fn verify(
    connections: &Connections<impl Driver>,
    types: &ResourceTypes,
    has_limits: bool,
) -> Result<(), VerifyError> {
    let names: Vec<_> = types.iter().map(|known| known.name().to_owned()).collect();
    let columns: Vec<_> = types.iter().map(|known| known.column().to_owned()).collect();
    let kinds: Vec<_> = types.iter().map(|known| kind(known.id_kind()).to_owned()).collect();
    let tracked = types.iter().filter(|known| known.is_tracked());
    let tracked: Vec<_> = tracked.map(|known| known.name().to_owned()).collect();
    let schema = &connections.sql().schema;
    let parameters = &[
        VERSION.into(),
        names.as_slice().into(),
        columns.as_slice().into(),
        schema.name().into(),
        schema.table_name().into(),
        kinds.as_slice().into(),
        tracked.as_slice().into(),
        connections.driver().reads_messages().into(),
        has_limits.into(),
    ];
    let operation = &Operation::new(connections).leaving_nothing();
    let look = |attempt| async move {
        let mut asked = operation.connect(attempt, Reset::RollBack).await?;
        match asked.begin(BEGIN, Statement { sql: include_str!("sql/verify.sql"), parameters }, None).await {
            Ok(rows) => Ok(rows),
            Err(error) => Err(asked.failed(error)),
        }
    };
    found(&operation.run(look, |_| true).await?)
}

/// Returns the name of the kind in the statement.
fn kind(kind: IdKind) -> &'static str {
    match kind {
        IdKind::Integer => "integer",
        IdKind::Text => "text",
        IdKind::Uuid => "uuid",
    }
}

fn found(rows: &[impl Row]) -> Result<(), VerifyError> {
    let problems = rows.iter().filter_map(|row| problem(row).transpose()).collect::<Result<Vec<_>, _>>()?;
    if problems.is_empty() { Ok(()) } else { Err(VerifyError::Problems(problems)) }
}

/// Returns `None` for what is only worth a warning.
fn problem(row: &impl Row) -> Result<Option<SetupProblem>, StoreError> {
    let (subject, detail): (Option<&str>, Option<&str>) = (column(row, "subject")?, column(row, "detail")?);
    let (subject, text) = (subject.unwrap_or_default().to_owned(), detail.unwrap_or_default().to_owned());
    Ok(Some(match column::<&str>(row, "problem")? {
        "exempt_role" => SetupProblem::ExemptRole { role: subject },
        "messages" => {
            if !is_english(&subject) {
                telemetry::translated_messages(&subject);
            }
            return Ok(None);
        }
        "missing_privilege" => SetupProblem::MissingPrivilege { object: subject, privilege: text },
        "missing_table" => SetupProblem::MissingTable { table: subject },
        "no_index_of_users" => SetupProblem::NoIndexOfUsers { table: subject },
        "no_row_level_security" => SetupProblem::NoRowLevelSecurity { table: subject },
        "no_status" => SetupProblem::NoStatus { function: subject, resource_types: text },
        "other_id_kind" => SetupProblem::OtherIdKind { name: subject, found: text },
        "other_version" => {
            SetupProblem::OtherVersion { found: detail.map(str::parse).transpose().map_err(corrupt)?, needed: VERSION }
        }
        "unregistered_type" => SetupProblem::UnregisteredType { name: subject, column: text },
        other => return Err(corrupt(format!("unknown problem: {other:?}"))),
    }))
}

/// Returns whether the messages of a server with this `lc_messages` are in English.
fn is_english(locale: &str) -> bool {
    let language = locale.split(['_', '-', '.', '@']).next().unwrap_or_default();
    ["", "C", "POSIX", "en", "English"].iter().any(|english| language.eq_ignore_ascii_case(english))
}

/// The error of [`SqlStore::verify`](super::SqlStore::verify). Its message lists all problems, with a remedy
/// for each.
#[derive(Debug)]
#[non_exhaustive]
pub enum VerifyError {
    /// The database is not set up for the store.
    Problems(Vec<SetupProblem>),
    /// The database cannot be asked.
    Store(StoreError),
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Problems(problems) => {
                f.write_str("the database is not set up for the idempotency store:")?;
                problems.iter().try_for_each(|problem| write!(f, "\n- {problem}"))
            }
            Self::Store(_) => f.write_str("the set-up of the database cannot be checked"),
        }
    }
}

impl std::error::Error for VerifyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Problems(_) => None,
            Self::Store(error) => Some(error),
        }
    }
}

impl From<StoreError> for VerifyError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Something that is wrong with the database of a store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetupProblem {
    /// Row-level security does not apply to the role, or to the one that the connection logged in as and can return to.
    #[error(
        "row-level security does not apply to the role {role}: it is a superuser or has BYPASSRLS; log in as a role \
         of the API's own"
    )]
    ExemptRole {
        /// The role.
        role: String,
    },
    /// The role lacks a privilege.
    #[error("the role lacks {privilege} on {object}; run migrations::grant")]
    MissingPrivilege {
        /// The kind and name of the object.
        object: String,
        /// The privilege.
        privilege: String,
    },
    /// There is no table of keys.
    #[error("the table {table} does not exist; run migrations::run")]
    MissingTable {
        /// The table, with its schema.
        table: String,
    },
    /// The store limits the records of one user, and no index finds them.
    #[error(
        "the store limits the records of one user, but no index of {table} is led by user_id; partition the table \
         (migrations::partition), or make such an index"
    )]
    NoIndexOfUsers {
        /// The table, with its schema.
        table: String,
    },
    /// Row-level security is off, or the role owns the table and it is not forced.
    #[error(
        "row-level security of {table} does not apply to the role; ENABLE it, and FORCE it if the role owns the table"
    )]
    NoRowLevelSecurity {
        /// The table, with its schema.
        table: String,
    },
    /// Resource types are tracked, and the function that knows their status is the one that the migrations made, which knows
    /// none.
    #[error(
        "the store knows the status of {resource_types} (ResourceType::tracked), but {function} is as the migrations made it, and knows no status; \
         replace it, with the parameters (p_resource_type text, p_resource text)"
    )]
    NoStatus {
        /// The function, with its schema.
        function: String,
        /// The names of the types.
        resource_types: String,
    },
    /// The ids of a resource type are of another kind in the database.
    #[error(
        "the ids of the resource type {name} have the type {found} in the database; say their kind with ResourceType::ids"
    )]
    OtherIdKind {
        /// The type's name.
        name: String,
        /// The type of its column.
        found: String,
    },
    /// The functions are of another version of the crate.
    #[error(
        "the functions in the database have version {}, and the store needs version {needed}; run migrations::run",
        .found.map_or("none".to_owned(), |found| found.to_string())
    )]
    OtherVersion {
        /// The version in the database; `None` if it has none.
        found: Option<i32>,
        /// The version that the store needs.
        needed: i32,
    },
    /// A resource type of the store is not registered in the database.
    #[error("the resource type {name} with the column {column} is not registered; run migrations::register")]
    UnregisteredType {
        /// The type's name.
        name: String,
        /// Its column.
        column: String,
    },
}

#[cfg(test)]
mod tests {
    use super::is_english;

    #[test]
    fn the_messages_of_some_locales_are_in_english() {
        for english in ["", "C", "C.UTF-8", "POSIX", "en_US.utf8", "en_GB", "en-US", "English_United States.1252"] {
            assert!(is_english(english), "{english}");
        }
        for other in ["de_DE.UTF-8", "German_Germany.1252", "enm", "Chinese_China.936", "ca_ES"] {
            assert!(!is_english(other), "{other}");
        }
    }
}
