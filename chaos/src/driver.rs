//! The client library of PostgreSQL that the servers use.

use std::fmt;

use clap::ValueEnum;
use organization::DriverArg;

use crate::error::Error;

/// A driver: of the sample, or of the [handlers](crate::handlers) of this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Driver {
    /// diesel-async, with deadpool.
    Diesel,
    /// sea-orm.
    SeaOrm,
    /// sqlx, with its pool.
    Sqlx,
    /// tokio-postgres, with deadpool.
    TokioPostgres,
}

impl Driver {
    /// Returns why this program cannot run its servers on the driver; `None` if it can.
    pub(crate) fn missing(self, pgbouncer: bool) -> Option<String> {
        let built = match self {
            Self::Diesel | Self::SeaOrm => false,
            Self::Sqlx => cfg!(feature = "sqlx"),
            Self::TokioPostgres => true,
        };
        if !built {
            return Some(format!("this program was built without {self}: build it with `--features {self}`"));
        }
        (pgbouncer && self == Self::Diesel).then(|| {
            "diesel needs a PgBouncer that tracks prepared statements, and the harness starts one that does not: leave \
             `--pgbouncer` out"
                .to_owned()
        })
    }

    /// Runs the sample on the driver.
    ///
    /// # Errors
    ///
    /// The sample cannot serve, or the driver is [missing](Self::missing).
    pub(crate) async fn run(self, mut args: organization::Args) -> Result<(), Error> {
        match self {
            Self::Sqlx => {
                args.driver = DriverArg::Sqlx;
                organization::run(args).await
            }
            Self::TokioPostgres => organization::run(args).await,
            missing => Err(missing.missing(false).unwrap_or_default().into()),
        }
    }
}

impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Diesel => "diesel",
            Self::SeaOrm => "sea-orm",
            Self::Sqlx => "sqlx",
            Self::TokioPostgres => "tokio-postgres",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_displayed_as_it_is_named_on_the_command_line() {
        for driver in Driver::value_variants() {
            assert_eq!(Driver::from_str(&driver.to_string(), false).as_ref(), Ok(driver));
        }
    }

    #[test]
    fn names_the_feature_that_it_needs_and_does_not_if_it_is_built_in() {
        assert_eq!(Driver::TokioPostgres.missing(true), None);
        let built = cfg!(feature = "sqlx");
        let missing = Driver::Sqlx.missing(false);
        assert_eq!(missing.is_none(), built);
        assert!(missing.is_none_or(|why| why.contains("`--features sqlx`")));
    }
}
