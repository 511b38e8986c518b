//! The text of an error with its causes, for log lines.

use std::{error::Error, fmt};

use tonic_idempotency_wire::texts;

/// Displays an error with its causes in one line, each text once. For an error of PostgreSQL, displays only the message and the SQLSTATE,
/// because the details may quote the row.
pub(crate) struct Chain<'a>(pub(crate) &'a dyn Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&texts(self.0, text).collect::<Vec<_>>().join(": "))
    }
}

fn text(cause: &(dyn Error + 'static)) -> String {
    #[cfg(feature = "postgres")]
    if let Some(error) = cause.downcast_ref::<tokio_postgres::error::DbError>() {
        return format!("{} (SQLSTATE {})", error.message(), error.code().code());
    }
    cause.to_string()
}
