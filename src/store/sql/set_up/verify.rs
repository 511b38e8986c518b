//! Checks of the database before the first call.

use std::fmt;

use super::problem::SetupProblem;
use crate::{
    status::IdKind,
    store::{
        ResourceTypes, StoreError, StoreErrorKind,
        files::{CHECKS, FILES, GRANTED, LIMITS, ROUTINES, VERSION, applied},
        sql::{
            connections::{Connections, Reset},
            driver::{Connection as _, Driver, Row, Statement},
            operation::StoreOperation,
            statements::{column, corrupt},
        },
    },
    telemetry,
};

/// The maximum number of missing privileges that the message names after the first.
const NAMED: usize = 3;

/// The names in the statement are PostgreSQL's own, whatever the role's search_path is.
const BEGIN: &str = "BEGIN READ ONLY; SET LOCAL search_path = pg_catalog, pg_temp";

/// Checks what the role of the pool sees of the database, without a change.
pub(in crate::store::sql) async fn verify(
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
    let granted = GRANTED.map(routine);
    let (routines, versions) =
        (ROUTINES.map(|(name, _)| routine(name)), ROUTINES.map(|(_, version)| version.to_string()));
    let checks = CHECKS.map(str::to_owned);
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
    Ok(whole_migrations(
        ask(connections, Statement { sql: include_str!("../statements/verify.sql"), parameters }).await?,
    ))
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
    let operation = &StoreOperation::new(connections).leaving_nothing();
    let look = |attempt| async move {
        let mut asked = operation.connect(attempt, Reset::RollBack).await?;
        match asked.begin(BEGIN, statement, None).await {
            Ok(rows) => Ok(rows),
            Err(error) => Err(asked.failed(error).await),
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
    let missing = |version: u32| {
        let made = ROUTINES.iter().filter(|(_, made)| *made == version).count();
        let gone = problems
            .iter()
            .filter(|it| matches!(it, SetupProblem::MissingRoutine { migration, .. } if *migration == version));
        made > 0 && gone.count() == made
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

/// The error of [`SqlStore::verify`](crate::store::SqlStore::verify). Its message lists all problems, with a remedy
/// for each, in the order in which the remedies work.
#[non_exhaustive]
pub enum VerifyError {
    /// The database is not set up for the store. The problems are in the order in which their remedies work.
    Problems(Vec<SetupProblem>),
    /// The database cannot be asked.
    Store(StoreError),
}

impl VerifyError {
    pub(in crate::store::sql) fn of(mut problems: Vec<SetupProblem>) -> Result<(), Self> {
        problems.sort_by_key(SetupProblem::place);
        if problems.is_empty() { Ok(()) } else { Err(Self::Problems(problems)) }
    }
}

tonic_idempotency_wire::debug_tells!(VerifyError);

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Problems(problems) => {
                f.write_str("the database is not set up for the idempotency store:")?;
                // A role without grants lacks all of them: those of one kind of objects are one line.
                for alike in problems.chunk_by(|one, next| one.is_missing_privilege() && one.place() == next.place()) {
                    write!(f, "\n- {}", alike[0])?;
                    let more: Vec<_> = alike[1..].iter().filter_map(|problem| problem.privilege()).take(NAMED).collect();
                    if !more.is_empty() {
                        let rest = alike.len() - 1 - more.len();
                        let rest = if rest > 0 { format!(", and {rest} more") } else { String::new() };
                        write!(f, " (the same for {}{rest})", more.join(", "))?;
                    }
                }
                Ok(())
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
