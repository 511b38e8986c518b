//! The folder of the migrations: the application's, and those that were written before.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::ValueEnum as _;

use super::{Error, format::Format};

/// The migrations in a folder.
#[derive(Debug)]
pub(super) struct Folder {
    format: Format,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    version: String,
    name: String,
    path: PathBuf,
}

impl Folder {
    /// Reads a folder. One that does not exist has no migrations.
    pub(super) fn read(format: Format, path: &Path) -> Result<Self, Error> {
        let mut folder = Self { format, entries: Vec::new() };
        folder.add(path)?;
        Ok(folder)
    }

    fn add(&mut self, path: &Path) -> Result<(), Error> {
        let listed = match fs::read_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            listed => listed.and_then(Iterator::collect::<io::Result<Vec<_>>>).map_err(Error::file(path))?,
        };
        for entry in listed {
            let path = entry.path();
            let is_folder = path.is_dir();
            if is_folder && self.format.descends() {
                self.add(&path)?;
            }
            let file_name = entry.file_name();
            if let Some((version, name)) = file_name.to_str().and_then(|name| self.format.parse(name, is_folder)) {
                self.entries.push(Entry { version: version.replace('-', ""), name: name.to_owned(), path });
            }
        }
        Ok(())
    }

    /// Refuses a folder that has this migration for another runner: its own runner would run both.
    pub(super) fn is_of_this_format(&self, path: &Path, name: &str) -> Result<(), Error> {
        if self.find(name).is_some() {
            return Ok(());
        }
        for other in Format::value_variants().iter().filter(|other| **other != self.format) {
            if let Some(path) = Self::read(*other, path)?.find(name) {
                return Err(Error::OtherFormat { other: *other, path });
            }
        }
        Ok(())
    }

    pub(super) fn format(&self) -> Format {
        self.format
    }

    /// Returns the file that brings a migration about, if the folder has it.
    pub(super) fn find(&self, name: &str) -> Option<PathBuf> {
        let is_down = |path: &Path| path.to_str().is_some_and(|path| path.ends_with(".down.sql"));
        let entry = self.entries.iter().find(|entry| entry.name == name && !is_down(&entry.path))?;
        Some(if self.format == Format::Diesel { entry.path.join("up.sql") } else { entry.path.clone() })
    }

    /// Returns the versions of all migrations, as digits, for Flyway also with `.` and `_`.
    pub(super) fn versions(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.version.as_str())
    }

    /// Returns whether sqlx runs and reverts migrations of this folder.
    pub(super) fn is_reversible(&self) -> bool {
        self.entries.iter().any(|entry| entry.path.to_str().is_some_and(|path| path.ends_with(".up.sql")))
    }
}
