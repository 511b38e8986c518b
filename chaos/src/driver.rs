//! The client library of PostgreSQL that the servers use.

use std::fmt;

use clap::ValueEnum;
use organization::DriverArg;

use crate::{error::Error, mode::Mode};

/// A driver: of the sample, or of the handlers of this program.
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
    /// Returns why this program cannot run servers on the driver; `None` if it can.
    pub(crate) fn missing(self) -> Option<String> {
        let built = match self {
            Self::Diesel => cfg!(feature = "diesel"),
            Self::SeaOrm => cfg!(feature = "sea-orm"),
            Self::Sqlx => cfg!(feature = "sqlx"),
            Self::TokioPostgres => true,
        };
        (!built).then(|| format!("this program was built without {self}: build it with `--features {self}`"))
    }

    /// Returns why the servers cannot work behind the PgBouncer of the harness, which does not track prepared statements, in one of
    /// these modes; `None` if they can.
    pub(crate) fn missing_behind_pgbouncer(self, modes: &[Mode]) -> Option<&'static str> {
        match self {
            Self::Diesel => {
                Some("diesel needs a PgBouncer that tracks prepared statements: leave `--topology pgbouncer` out")
            }
            Self::SeaOrm if modes.contains(&Mode::Reserved) => Some(
                "the transactions that sea-orm begins itself need a PgBouncer that tracks prepared statements: add \
                 `--mode transactional`, or leave `--topology pgbouncer` out",
            ),
            Self::SeaOrm | Self::Sqlx | Self::TokioPostgres => None,
        }
    }

    /// Returns why the servers cannot work with connection strings of several hosts; `None` if they can.
    pub(crate) fn missing_with_hosts(self) -> Option<&'static str> {
        match self {
            Self::SeaOrm | Self::Sqlx => Some(
                "sqlx, on which sea-orm is, does not know connection strings with several hosts: leave `--front hosts` out",
            ),
            Self::Diesel | Self::TokioPostgres => None,
        }
    }

    /// Returns why the servers cannot keep their records on Redis; `None` if they can.
    pub(crate) fn missing_on_redis(self) -> Option<&'static str> {
        match self {
            Self::Diesel | Self::SeaOrm | Self::Sqlx => {
                Some("with records on Redis the handlers are those of tokio-postgres: leave `--driver` out")
            }
            Self::TokioPostgres => None,
        }
    }

    /// Runs the sample on the driver.
    ///
    /// # Errors
    ///
    /// The sample cannot serve, or the driver is [missing](Self::missing).
    pub(crate) async fn run(self, mut args: organization::Args) -> Result<(), Error> {
        match self {
            #[cfg(feature = "diesel")]
            Self::Diesel => organization::run_on::<crate::handlers::Diesel>(args).await,
            #[cfg(feature = "sea-orm")]
            Self::SeaOrm => organization::run_on::<crate::handlers::SeaOrm>(args).await,
            Self::Sqlx => {
                args.driver = DriverArg::Sqlx;
                organization::run(args).await
            }
            Self::TokioPostgres => organization::run(args).await,
            #[cfg(not(all(feature = "diesel", feature = "sea-orm")))]
            missing => Err(missing.missing().unwrap_or_default().into()),
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
    use crate::args::Modes;

    #[test]
    fn is_displayed_as_it_is_named_on_the_command_line() {
        for driver in Driver::value_variants() {
            assert_eq!(Driver::from_str(&driver.to_string(), false).as_ref(), Ok(driver));
        }
    }

    #[test]
    fn names_the_feature_that_it_needs_and_does_not_if_it_is_built_in() {
        assert_eq!(Driver::TokioPostgres.missing(), None);
        let (built, missing) = (cfg!(feature = "sqlx"), Driver::Sqlx.missing());
        assert_eq!(missing.is_none(), built);
        assert!(missing.is_none_or(|why| why.contains("`--features sqlx`")));
    }

    #[test]
    fn works_behind_pgbouncer_if_it_can_leave_its_statements_unnamed() {
        let works = |driver: Driver, modes: Modes| driver.missing_behind_pgbouncer(modes.each()).is_none();
        assert!(works(Driver::TokioPostgres, Modes::Both) && works(Driver::Sqlx, Modes::Both));
        assert!(works(Driver::SeaOrm, Modes::Transactional) && !works(Driver::SeaOrm, Modes::Both));
        assert!(!works(Driver::Diesel, Modes::Transactional));
    }

    #[test]
    fn works_with_several_hosts_if_its_connection_strings_name_them() {
        assert!(Driver::TokioPostgres.missing_with_hosts().is_none() && Driver::Diesel.missing_with_hosts().is_none());
        assert!(Driver::Sqlx.missing_with_hosts().is_some() && Driver::SeaOrm.missing_with_hosts().is_some());
    }

    #[test]
    fn has_records_on_redis_beside_the_handlers_of_tokio_postgres_alone() {
        let works = |driver: &&Driver| driver.missing_on_redis().is_none();
        assert!(Driver::value_variants().iter().filter(works).eq([&Driver::TokioPostgres]));
    }
}
