//! Checks of the database before the first call.

use std::fmt;

use super::{
    attempt_connection::Reset,
    connection::Connections,
    driver::{Connection as _, Driver, Row, Statement},
    operation::Operation,
    row::{column, corrupt},
};
use crate::{
    status::IdKind,
    store::{
        ResourceTypes, StoreError, StoreErrorKind,
        files::{self, FILES, LIMITS, applied},
    },
    telemetry,
};

/// The version of the functions that the store calls, as `tenant.idempotency_version()` returns it.
const VERSION: i32 = 9;

/// The names in the statement are PostgreSQL's own, whatever the role's search_path is.
const BEGIN: &str = "BEGIN READ ONLY; SET LOCAL search_path = pg_catalog, pg_temp";

/// Checks what the role of the pool sees of the database, without a change.
pub(super) async fn verify(
    connections: &Connections<impl Driver>,
    types: &ResourceTypes,
    has_limits: bool,
) -> Result<(), VerifyError> {
    let problems = in_catalogue(connections, types, has_limits).await?;
    let may_ask = |problem: &SetupProblem| {
        use SetupProblem::{
            MissingMigrations, MissingPack, MissingPrivilege, MissingRoutine, MissingTable, OtherVersion,
        };
        !matches!(
            problem,
            MissingMigrations { .. }
                | MissingPack { .. }
                | MissingPrivilege { .. }
                | MissingRoutine { .. }
                | MissingTable { .. }
                | OtherVersion { .. }
        )
    };
    let made = if problems.iter().all(may_ask) { in_tables(connections, has_limits).await? } else { Vec::new() };
    VerifyError::of(problems.into_iter().chain(made).collect())
}

/// Looks at the catalogue, the role and its settings.
async fn in_catalogue(
    connections: &Connections<impl Driver>,
    types: &ResourceTypes,
    has_limits: bool,
) -> Result<Vec<SetupProblem>, VerifyError> {
    let registered = || types.iter().filter(|known| known.table().is_some());
    let names: Vec<_> = registered().map(|known| known.name().to_owned()).collect();
    let columns: Vec<_> = registered().map(|known| known.column().to_owned()).collect();
    let tables: Vec<_> = types.iter().filter_map(|known| known.table().map(str::to_owned)).collect();
    let kinds: Vec<_> = registered().map(|known| kind(known.id_kind()).to_owned()).collect();
    let tracked = types.iter().filter(|known| known.is_tracked());
    let tracked: Vec<_> = tracked.map(|known| known.name().to_owned()).collect();
    let granted: Vec<_> = files::granted().into_iter().map(routine).collect();
    let (routines, versions): (Vec<_>, Vec<_>) =
        files::routines().into_iter().map(|(name, version)| (routine(name), version.to_string())).unzip();
    let checks: Vec<_> = files::checks().into_iter().map(str::to_owned).collect();
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
        granted.as_slice().into(),
        routines.as_slice().into(),
        versions.as_slice().into(),
        checks.as_slice().into(),
        tables.as_slice().into(),
    ];
    Ok(whole_migrations(ask(connections, Statement { sql: include_str!("sql/verify.sql"), parameters }).await?))
}

/// Looks at the list of migrations, and at what depends on the table's owner.
async fn in_tables(connections: &Connections<impl Driver>, has_limits: bool) -> Result<Vec<SetupProblem>, VerifyError> {
    let sql = connections.sql();
    let (numbers, checksums): (Vec<_>, Vec<_>) = (1..)
        .zip(FILES.map(|(_, file)| file))
        .chain(has_limits.then_some((LIMITS.version, LIMITS.sql)))
        .map(|(number, file): (u32, _)| (number.to_string(), applied(&sql.schema, file).1))
        .unzip();
    let parameters = &[numbers.as_slice().into(), checksums.as_slice().into()];
    ask(connections, Statement { sql: &sql.verify_made, parameters }).await
}

/// Asks in a transaction that changes nothing.
async fn ask(
    connections: &Connections<impl Driver>,
    statement: Statement<'_>,
) -> Result<Vec<SetupProblem>, VerifyError> {
    let operation = &Operation::new(connections).leaving_nothing();
    let look = |attempt| async move {
        let mut asked = operation.connect(attempt, Reset::RollBack).await?;
        match asked.begin(BEGIN, statement, None).await {
            Ok(rows) => Ok(rows),
            Err(error) => Err(asked.failed(error)),
        }
    };
    let rows = operation.run(look, |_| true).await?;
    let mut problems = rows.iter().filter_map(|row| problem(row).transpose()).collect::<Result<Vec<_>, _>>()?;
    let (mut missing, mut needed) = (Vec::new(), Vec::new());
    problems.retain_mut(|problem| match problem {
        SetupProblem::MissingMigrations { versions } => {
            missing.append(versions);
            false
        }
        SetupProblem::OtherOwner { repairs } => {
            needed.append(repairs);
            false
        }
        _ => true,
    });
    if !missing.is_empty() {
        missing.sort_unstable();
        problems.push(SetupProblem::MissingMigrations { versions: missing });
    }
    if !needed.is_empty() {
        problems.push(SetupProblem::OtherOwner { repairs: needed });
    }
    Ok(problems)
}

/// If all routines of a migration are missing, reports the migration instead of each routine.
fn whole_migrations(problems: Vec<SetupProblem>) -> Vec<SetupProblem> {
    let all = files::routines();
    let missing = |version: u32| {
        let made = all.values().filter(|made| u32::try_from(**made).ok() == Some(version)).count();
        let gone = problems
            .iter()
            .filter(|it| matches!(it, SetupProblem::MissingRoutine { migration, .. } if *migration == version));
        gone.count() == made
    };
    let versions: Vec<u32> = (1..).take(FILES.len()).filter(|version| missing(*version)).collect();
    let is_told = |problem: &SetupProblem| matches!(problem, SetupProblem::MissingRoutine { migration, .. } if versions.contains(migration));
    let mut problems: Vec<_> = problems.iter().filter(|problem| !is_told(problem)).cloned().collect();
    if !versions.is_empty() {
        problems.push(SetupProblem::MissingMigrations { versions });
    }
    problems
}

fn routine(name: &str) -> String {
    format!("idempotency_{name}")
}

/// Returns the name of the kind in the statement.
fn kind(kind: IdKind) -> &'static str {
    match kind {
        IdKind::Integer => "integer",
        IdKind::Text => "text",
        IdKind::Uuid => "uuid",
    }
}

/// Converts a row; `None` if a warning, which is logged here, is enough.
fn problem(row: &impl Row) -> Result<Option<SetupProblem>, StoreError> {
    let (subject, detail): (Option<&str>, Option<&str>) = (column(row, "subject")?, column(row, "detail")?);
    let (subject, text) = (subject.unwrap_or_default().to_owned(), detail.unwrap_or_default().to_owned());
    Ok(Some(match column::<&str>(row, "problem")? {
        "excess_privilege" => {
            let (privilege, role) = privilege_and_role(&text)?;
            SetupProblem::ExcessPrivilege { object: subject, privilege, role }
        }
        "exempt_role" => SetupProblem::ExemptRole { role: subject },
        "messages" => {
            if !is_english(&subject) {
                telemetry::translated_messages(&subject);
            }
            return Ok(None);
        }
        "loses_commits" => {
            tracing::warn!(
                "synchronous_commit is off for the role of the store: a crash of the server takes outcomes back"
            );
            return Ok(None);
        }
        "missing_check" => SetupProblem::MissingCheck { name: subject, table: text },
        "missing_migration" if subject == LIMITS.version.to_string() => SetupProblem::MissingPack { name: LIMITS.name },
        "missing_pack" => SetupProblem::MissingPack { name: LIMITS.name },
        "missing_migration" => SetupProblem::MissingMigrations { versions: vec![subject.parse().map_err(corrupt)?] },
        "missing_privilege" => {
            let (privilege, role) = privilege_and_role(&text)?;
            SetupProblem::MissingPrivilege { object: subject, privilege, role }
        }
        "missing_routine" => {
            SetupProblem::MissingRoutine { routine: subject, migration: text.parse().map_err(corrupt)? }
        }
        "missing_table" => SetupProblem::MissingTable { table: subject },
        "no_index_of_users" => SetupProblem::NoIndexOfUsers { table: subject },
        "no_reference" => {
            tracing::warn!(
                resource_type = subject,
                "records refer to resources that their table does not have, and there is no foreign key: register the type again when they \
                 have expired"
            );
            return Ok(None);
        }
        "no_row_level_security" => SetupProblem::NoRowLevelSecurity { table: subject },
        "no_status" => SetupProblem::NoStatus { function: subject, resource_types: text },
        "other_id_kind" => SetupProblem::OtherIdKind { name: subject, found: text },
        "other_owner" => SetupProblem::OtherOwner { repairs: vec![subject] },
        "other_table" => SetupProblem::OtherTable { name: subject, found: text },
        "other_version" => {
            SetupProblem::OtherVersion { found: detail.map(str::parse).transpose().map_err(corrupt)?, needed: VERSION }
        }
        "setting" => SetupProblem::Setting { name: subject, value: text },
        "subscribed" => {
            tracing::warn!(
                table = subject,
                "a subscription writes the table of keys: if both databases take calls at the same time, a call may run in one and its retry in the other"
            );
            return Ok(None);
        }
        "unregistered_type" => SetupProblem::UnregisteredType { name: subject, column: text },
        other => return Err(corrupt(format!("unknown problem: {other:?}"))),
    }))
}

/// Splits a privilege and a role.
fn privilege_and_role(text: &str) -> Result<(String, String), StoreError> {
    let (privilege, role) = text.split_once(' ').ok_or_else(|| corrupt("a privilege without a role"))?;
    Ok((privilege.to_owned(), role.to_owned()))
}

/// Returns whether the messages of a server with this `lc_messages` are in English.
fn is_english(locale: &str) -> bool {
    let language = locale.split(['_', '-', '.', '@']).next().unwrap_or_default();
    ["", "C", "POSIX", "en", "English"].iter().any(|english| language.eq_ignore_ascii_case(english))
}

/// The error of [`SqlStore::verify`](super::SqlStore::verify). Its message lists all problems, with a remedy
/// for each.
#[non_exhaustive]
pub enum VerifyError {
    /// The database is not set up for the store.
    Problems(Vec<SetupProblem>),
    /// The database cannot be asked.
    Store(StoreError),
}

impl VerifyError {
    pub(super) fn of(problems: Vec<SetupProblem>) -> Result<(), Self> {
        if problems.is_empty() { Ok(()) } else { Err(Self::Problems(problems)) }
    }
}

tonic_idempotency_wire::debug_tells!(VerifyError);

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Problems(problems) => {
                f.write_str("the database is not set up for the idempotency store:")?;
                let is_grant = |problem: &&SetupProblem| matches!(problem, SetupProblem::MissingPrivilege { .. });
                let (grants, others): (Vec<_>, Vec<_>) = problems.iter().partition(is_grant);
                // A role without grants lacks all of them, and there is one remedy.
                if let Some(first) = grants.first() {
                    write!(f, "\n- {first}")?;
                    let more: Vec<_> = grants[1..].iter().filter_map(|problem| problem.privilege()).take(NAMED).collect();
                    if !more.is_empty() {
                        let rest = grants.len() - 1 - more.len();
                        let rest = if rest > 0 { format!(", and {rest} more") } else { String::new() };
                        write!(f, " (the same for {}{rest})", more.join(", "))?;
                    }
                }
                others.iter().try_for_each(|problem| write!(f, "\n- {problem}"))
            }
            Self::Store(error) if error.kind() == StoreErrorKind::Unreachable => f.write_str(
                "the set-up of the database cannot be checked: there is no connection to it; does PostgreSQL listen at the host and port \
                 of the pool, and is there a database of that name?",
            ),
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

/// The remedy for what the migrations make.
const RUN: &str =
    "as the owner of the tables, call migrations::run, or run the files that `tonic-idempotency migrations` writes";

/// Something that is wrong with the database of a store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetupProblem {
    /// PUBLIC has a privilege, or the role one that only the owner, or an operator, should have.
    #[error("{role} has {privilege} on {object}; as the owner of the tables, REVOKE {privilege} ON {object} FROM {role}")]
    ExcessPrivilege {
        /// The kind and name of the object.
        object: String,
        /// The privilege.
        privilege: String,
        /// The role that it was granted to: that of the pool, one that it is a member of, or `PUBLIC`.
        role: String,
    },
    /// Row-level security does not apply to the role, or to the one that the connection logged in as and can return to.
    #[error(
        "row-level security does not apply to the role {role}: it is a superuser or has BYPASSRLS; log in as a role \
         of the API's own"
    )]
    ExemptRole {
        /// The role.
        role: String,
    },
    /// A statement of a call does not work. It was tried on a row of an owner that exists for this check alone.
    #[error("{call} does not work: {error}")]
    FailedCall {
        /// The call that was tried.
        call: String,
        /// The error, or what was found instead.
        error: String,
    },
    /// The table lacks a constraint.
    #[error(
        "the table {table} lacks the check {name}; delete the row of migration 1 from idempotency_migrations, and run migrations::run"
    )]
    MissingCheck {
        /// The constraint.
        name: String,
        /// The table, with its schema.
        table: String,
    },
    /// Migrations were not run, or were run with different SQL.
    #[error("the database lacks {}; {RUN}", named(.versions))]
    MissingMigrations {
        /// Their numbers.
        versions: Vec<u32>,
    },
    /// A pack was not run, or was run with different SQL.
    #[error(
        "the store needs the pack {name}, and the database lacks it; as the owner of the tables, call migrations::{name} and \
         migrations::grant, or run the files that `tonic-idempotency migrations --{name}` writes; if a part of it is gone, delete its row \
         from idempotency_migrations before"
    )]
    MissingPack {
        /// Its name: `limits`.
        name: &'static str,
    },
    /// The role lacks a privilege.
    #[error(
        "the role {role} lacks {privilege} on {object}; as the owner of the tables, call migrations::grant for it, or run the file that \
         `tonic-idempotency migrations --grant {role}` writes"
    )]
    MissingPrivilege {
        /// The kind and name of the object.
        object: String,
        /// The privilege.
        privilege: String,
        /// The role that the pool logs in as.
        role: String,
    },
    /// A routine is gone.
    #[error(
        "the routine {routine} does not exist; delete the row of migration {migration} from idempotency_migrations, and run \
         migrations::run and migrations::grant"
    )]
    MissingRoutine {
        /// The routine, with its schema.
        routine: String,
        /// The number of the migration that makes it.
        migration: u32,
    },
    /// There is no table of keys.
    #[error("the table {table} does not exist; {RUN}")]
    MissingTable {
        /// The table, with its schema.
        table: String,
    },
    /// The store limits the records of one user, and no index finds them.
    #[error(
        "the store limits the records of one user, but no index of {table} is led by user_id and expires; make one: \
         CREATE INDEX CONCURRENTLY my_index ON {table} (user_id, expires)"
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
    /// An object is gone, or was made for an owner other than the table's present one.
    #[error(
        "the owner of the table of keys has changed, or a part of it is gone; run migrations::run, as that owner or as a \
         superuser: {}",
        first(.repairs)
    )]
    OtherOwner {
        /// The statements that make it right.
        repairs: Vec<String>,
    },
    /// The foreign key of a resource type leads to another table: one that had this name when the type was registered.
    #[error("the ids of the resource type {name} refer to {found}, which is not its table; run migrations::register")]
    OtherTable {
        /// The type's name.
        name: String,
        /// The table to which the foreign key leads.
        found: String,
    },
    /// The functions are of another version of the crate.
    #[error(
        "the functions in the database {}, and the store needs those of version {needed}; {RUN}",
        .found.map_or("are missing".to_owned(), |found| format!("have version {found}"))
    )]
    OtherVersion {
        /// The version in the database; `None` if it has none.
        found: Option<i32>,
        /// The version that the store needs.
        needed: i32,
    },
    /// A setting of the role, the database or the pool makes calls fail, or changes their meaning.
    #[error(
        "the setting {name} is {value:?} in the store's sessions, which is not what calls need; take it back: ALTER ROLE ... RESET, ALTER \
         DATABASE ... RESET, or in the pool"
    )]
    Setting {
        /// The setting.
        name: String,
        /// Its value.
        value: String,
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

/// The maximum number of missing privileges that the message names after the first.
const NAMED: usize = 3;

impl SetupProblem {
    /// Names the privilege that is missing.
    fn privilege(&self) -> Option<String> {
        match self {
            Self::MissingPrivilege { object, privilege, .. } => Some(format!("{privilege} on {object}")),
            _ => None,
        }
    }
}

/// Names the first of several statements.
fn first(repairs: &[String]) -> String {
    match repairs {
        [] => String::new(),
        [one] => one.clone(),
        [one, others @ ..] => format!("{one}, and {} more", others.len()),
    }
}

/// Names migrations by their numbers.
fn named(versions: &[u32]) -> String {
    let numbers: Vec<_> = versions.iter().map(u32::to_string).collect();
    format!("migration{} {}", if numbers.len() == 1 { "" } else { "s" }, numbers.join(", "))
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
