//! The SQLSTATEs of errors. diesel-async tells a few by its kinds; the functions of the migrations repeat theirs in the hint; the
//! server's are told by its English messages.

use diesel::result::{DatabaseErrorInformation, DatabaseErrorKind};

/// Those of the migrations' own errors, which are the hint, too.
const HINTS: [&str; 3] = ["42703", "TI001", "TI002"];

/// How the messages of connections begin that the server ends.
const FATAL: &str = "terminating connection";

/// The SQLSTATE of PgBouncer's own errors.
const OF_PGBOUNCER: &str = "08P01";

/// The message about a prepared statement that would have other columns now.
pub(crate) const STALE_PLAN: &str = "cached plan must not change result type";

/// Messages of PostgreSQL and PgBouncer. `*` is any text. The first that matches counts.
const MESSAGES: [(&str, &str); 50] = [
    // A connection that came with a transaction, or is in none.
    ("SET TRANSACTION *", "25001"),
    ("transaction read-write mode must be set before any query", "25001"),
    ("* can only be used in transaction blocks", "25P01"),
    ("current transaction is aborted*", "25P02"),
    ("invalid transaction termination", "2D000"),
    ("savepoint \"*\" does not exist", "3B001"),
    ("cannot use serializable mode in a hot standby", "0A000"),
    // Other transactions.
    ("deadlock detected", "40P01"),
    ("canceling statement due to lock timeout", "55P03"),
    ("could not obtain lock on *", "55P03"),
    ("canceling statement due to *", "57014"),
    // The server ends the connection, or does not take it.
    ("terminating connection because of crash*", "57P02"),
    ("terminating connection*", "57P01"),
    ("the database system is *", "57P03"),
    // A server that has too little of something.
    ("remaining connection slots are reserved*", "53300"),
    ("sorry, too many clients already", "53300"),
    ("too many connections for *", "53300"),
    ("*: No space left on device", "53100"),
    ("out of memory", "53200"),
    ("out of shared memory", "53200"),
    ("temporary file size exceeds temp_file_limit*", "53400"),
    // Prepared statements.
    (STALE_PLAN, "0A000"),
    ("prepared statement \"*\" does not exist", "26000"),
    ("prepared statement \"*\" already exists", "42P05"),
    // Values.
    ("division by zero", "22012"),
    ("invalid input syntax for type *", "22P02"),
    ("value \"*\" is out of range for type *", "22003"),
    ("* out of range", "22003"),
    // Rights.
    ("new row violates row-level security policy*", "42501"),
    ("permission denied*", "42501"),
    // Names.
    ("column * does not exist", "42703"),
    ("database \"*\" does not exist", "3D000"),
    ("function * does not exist", "42883"),
    ("procedure * does not exist", "42883"),
    ("relation \"*\" does not exist", "42P01"),
    ("schema \"*\" does not exist", "3F000"),
    ("syntax error *", "42601"),
    // A worker of Citus, or the server of a dblink or a foreign table, is away.
    ("connection to the remote node *", "08006"),
    ("could not connect to server *", "08001"),
    ("could not establish connection*", "08001"),
    ("server closed the connection unexpectedly*", "08006"),
    // PgBouncer has lost the server, or does not reach it.
    ("idle transaction timeout", "08P01"),
    ("pgbouncer *", "08P01"),
    ("query timeout", "08P01"),
    ("query_wait_timeout", "08P01"),
    ("server closed the connection*", "08P01"),
    ("server conn crashed*", "08P01"),
    ("server login *", "08P01"),
    ("server_lifetime*", "08P01"),
    ("no more connections allowed*", "53300"),
];

/// The same, of logins.
const LOGINS: [(&str, &str); 4] = [
    ("no pg_hba.conf entry *", "28000"),
    ("role \"*\" does not exist", "28000"),
    ("role \"*\" is not permitted to log in", "28000"),
    ("password authentication failed*", "28P01"),
];

/// Returns the SQLSTATE of an error; `None` if it cannot be told.
pub(crate) fn sqlstate(kind: &DatabaseErrorKind, information: &dyn DatabaseErrorInformation) -> Option<&'static str> {
    match kind {
        DatabaseErrorKind::CheckViolation => Some("23514"),
        DatabaseErrorKind::ExclusionViolation => Some("23P01"),
        DatabaseErrorKind::ForeignKeyViolation => Some("23503"),
        DatabaseErrorKind::NotNullViolation => Some("23502"),
        DatabaseErrorKind::ReadOnlyTransaction => Some("25006"),
        DatabaseErrorKind::RestrictViolation => Some("23001"),
        DatabaseErrorKind::SerializationFailure => Some("40001"),
        DatabaseErrorKind::UniqueViolation => Some("23505"),
        _ => of_hint(information.hint()).or_else(|| of_message(information.message(), &MESSAGES)),
    }
}

/// Returns the SQLSTATE of a login that was refused with this message; `None` if it cannot be told.
pub(crate) fn sqlstate_of_login(message: &str) -> Option<&'static str> {
    of_message(message, &LOGINS).or_else(|| of_message(message, &MESSAGES))
}

/// Returns whether the server ends the connection after an error with this message, or PgBouncer after one with this SQLSTATE.
pub(crate) fn is_fatal(code: &str, message: &str) -> bool {
    code == OF_PGBOUNCER || message.starts_with(FATAL)
}

fn of_hint(hint: Option<&str>) -> Option<&'static str> {
    HINTS.into_iter().find(|code| hint == Some(code))
}

fn of_message(message: &str, messages: &[(&str, &'static str)]) -> Option<&'static str> {
    messages.iter().find(|(pattern, _)| matches(pattern, message)).map(|(_, code)| *code)
}

/// Returns whether a text matches a pattern in which `*` is any text.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(start) else { return false };
    let (middle, end) = rest.rsplit_once('*').map_or((None, rest), |(middle, end)| (Some(middle), end));
    if let Some(middle) = middle {
        let Some((_, after)) = text.split_once(middle) else { return false };
        text = after;
    }
    text.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_the_code_of_the_first_pattern_that_matches() {
        for (message, code) in [
            ("deadlock detected", Some("40P01")),
            ("a deadlock detected by the application", None),
            ("canceling statement due to lock timeout", Some("55P03")),
            ("canceling statement due to user request", Some("57014")),
            ("savepoint \"idempotency_handler\" does not exist", Some("3B001")),
            ("value \"99999999999\" is out of range for type integer", Some("22003")),
            ("value \"99999999999\"", None),
            ("bigint out of range", Some("22003")),
            ("could not extend file \"base/1\": No space left on device", Some("53100")),
            ("refused at commit", None),
            ("role \"nobody\" does not exist", None),
            ("", None),
        ] {
            assert_eq!(of_message(message, &MESSAGES), code, "{message}");
        }
    }

    #[test]
    fn a_role_that_does_not_exist_is_a_login_that_is_refused() {
        assert_eq!(sqlstate_of_login("role \"nobody\" does not exist"), Some("28000"));
        assert_eq!(sqlstate_of_login("the database system is starting up"), Some("57P03"));
        assert_eq!(sqlstate_of_login("no"), None);
    }

    #[test]
    fn a_hint_counts_only_if_it_is_a_code_of_the_migrations() {
        assert_eq!(of_hint(Some("TI001")), Some("TI001"));
        for hint in [None, Some(""), Some("40001"), Some("TI001 ")] {
            assert_eq!(of_hint(hint), None);
        }
    }
}
