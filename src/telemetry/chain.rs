//! The text of an error with its causes, for log lines.

use std::{error::Error, fmt};

/// Displays an error with its causes in one line. For an error of PostgreSQL, displays only the message and the SQLSTATE,
/// because the details may quote the row.
pub(crate) struct Chain<'a>(pub(crate) &'a dyn Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(cause) = source {
            #[cfg(feature = "postgres")]
            if let Some(error) = cause.downcast_ref::<tokio_postgres::error::DbError>() {
                return write!(f, ": {} (SQLSTATE {})", error.message(), error.code().code());
            }
            write!(f, ": {cause}")?;
            source = cause.source();
        }
        Ok(())
    }
}
