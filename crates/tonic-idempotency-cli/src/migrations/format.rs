//! The runners, and how each names its files.

use std::{fmt, path::PathBuf};

use clap::ValueEnum;

use super::migration::Migration;

/// A down migration that reverts nothing. Otherwise the records would be lost, and with them the knowledge of what has been done.
const DOWN: &str = "\
-- Reverts nothing: without the records, a retry would be executed again. Running the migration again changes nothing, either.
SELECT 1;
";

/// A migration runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// sqlx::migrate! and sqlx-cli: 20260102030405_name.sql, or .up.sql and .down.sql if the folder has such files.
    Sqlx,
    /// refinery: V7__name.sql.
    Refinery,
    /// diesel_migrations and the diesel program: 2026-01-02-030405-0000_name/up.sql and down.sql.
    Diesel,
    /// Flyway, and psql for each file in the order of the versions: V7__name.sql.
    Flyway,
}

impl Format {
    /// Parses a path in the folder of migrations. Returns the version and the name of the migration. The path is that of a file, or, for
    /// diesel, that of a folder. Returns `None` if the runner does not take it for a migration.
    pub(super) fn parse(self, path: &str, is_folder: bool) -> Option<(&str, &str)> {
        let (version, name) = match self {
            Self::Diesel => path.split_once('_').filter(|_| is_folder)?,
            _ if is_folder => return None,
            Self::Sqlx => {
                let stem = path.strip_suffix(".sql")?;
                stem.strip_suffix(".up").or(stem.strip_suffix(".down")).unwrap_or(stem).split_once('_')?
            }
            Self::Refinery | Self::Flyway => {
                let (stem, _suffix) = path.rsplit_once('.')?;
                stem.strip_prefix(['B', 'U', 'V'])?.split_once("__")?
            }
        };
        version.starts_with(|first: char| first.is_ascii_digit()).then_some((version, name))
    }

    /// Returns the files of a new migration: their paths in the folder, and their texts.
    pub(super) fn files(self, version: &str, migration: &Migration, is_reversible: bool) -> Vec<(PathBuf, String)> {
        let Migration { name, sql } = migration;
        match self {
            Self::Sqlx if is_reversible => vec![
                (format!("{version}_{name}.up.sql").into(), sql.clone()),
                (format!("{version}_{name}.down.sql").into(), DOWN.to_owned()),
            ],
            Self::Sqlx => vec![(format!("{version}_{name}.sql").into(), sql.clone())],
            Self::Refinery | Self::Flyway => vec![(format!("V{version}__{name}.sql").into(), sql.clone())],
            Self::Diesel => {
                let folder = PathBuf::from(format!("{}_{name}", dashed(version)));
                vec![(folder.join("up.sql"), sql.clone()), (folder.join("down.sql"), DOWN.to_owned())]
            }
        }
    }

    /// Returns whether the runner's own program takes the time as the version of a file. Otherwise the files are counted from 1, because
    /// refinery's versions have only 32 bits.
    pub(super) fn counts_time(self) -> bool {
        matches!(self, Self::Sqlx | Self::Diesel)
    }

    /// Returns the largest version that the runner takes.
    pub(super) fn most(self) -> u64 {
        if self == Self::Refinery { i32::MAX.unsigned_abs().into() } else { 999_999_999_999_999_999 }
    }

    /// Returns whether the runner looks for migrations in folders of its folder, too.
    pub(super) fn descends(self) -> bool {
        matches!(self, Self::Refinery | Self::Flyway)
    }

    /// Returns the command or the macro that runs the files.
    pub(super) fn how_to_run(self) -> &'static str {
        match self {
            Self::Sqlx => "`sqlx migrate run`, or `sqlx::migrate!`",
            Self::Refinery => "`refinery migrate`, or `refinery::embed_migrations!`",
            Self::Diesel => "`diesel migration run`, or `diesel_migrations::embed_migrations!`",
            Self::Flyway => "`flyway migrate`",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Diesel => "diesel",
            Self::Flyway => "Flyway",
            Self::Refinery => "refinery",
            Self::Sqlx => "sqlx",
        })
    }
}

/// Returns a version that is a time with dashes, in the form of diesel's own program.
fn dashed(version: &str) -> String {
    const PARTS: [usize; 5] = [4, 2, 2, 6, 4];
    if version.len() < 14 {
        return version.to_owned();
    }
    let mut rest = version;
    let mut parts = Vec::new();
    for length in PARTS {
        let (part, after) = rest.split_at(length.min(rest.len()));
        parts.push(part);
        rest = after;
    }
    parts.push(rest);
    parts.retain(|part| !part.is_empty());
    parts.join("-")
}
