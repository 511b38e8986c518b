//! Writes the migrations into a folder, beside those of the application.

mod error;
mod folder;
mod format;
mod migration;
mod options;
mod report;
mod versions;
mod wanted;

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    time::SystemTime,
};

pub(crate) use self::{error::Error, options::Options};
use self::{folder::Folder, migration::Migration, report::Report};

/// Writes the migrations that the folder does not have. Writes nothing if one that it has differs.
pub(crate) fn write(options: &Options, now: SystemTime) -> Result<Report, Error> {
    let wanted = wanted::all(options)?;
    let folder = Folder::read(options.format, &options.out)?;
    for migration in &wanted {
        folder.is_of_this_format(&options.out, &migration.name)?;
    }
    let mut unchanged = Vec::new();
    let mut missing = Vec::new();
    let mut changed = Vec::new();
    for migration in &wanted {
        match folder.find(&migration.name) {
            None => missing.push(migration),
            Some(path) => match first_difference(&path, migration)? {
                None => unchanged.push(path),
                Some(line) => changed.push((path, line)),
            },
        }
    }
    if !changed.is_empty() {
        return Err(Error::Changed { files: changed });
    }
    let versions = versions::after(&folder, options.first_version.as_deref(), missing.len(), now)?;
    let mut written = Vec::new();
    for (version, migration) in versions.iter().zip(missing) {
        for (path, text) in options.format.files(version, migration, folder.is_reversible()) {
            let path = options.out.join(path);
            create(&path, &text)?;
            written.push(path);
        }
    }
    Ok(Report { format: options.format, written, unchanged })
}

/// Returns the number of the first line in which a file differs, from 1. The ends of lines may differ: Git changes them.
fn first_difference(path: &Path, migration: &Migration) -> Result<Option<usize>, Error> {
    let text = fs::read_to_string(path).map_err(Error::file(path))?;
    let (mut there, mut here) = (text.lines(), migration.sql.lines());
    for number in 1.. {
        match (there.next(), here.next()) {
            (None, None) => break,
            (there, here) if there == here => {}
            _ => return Ok(Some(number)),
        }
    }
    Ok(None)
}

/// Writes a file that does not exist.
fn create(path: &PathBuf, text: &str) -> Result<(), Error> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(Error::file(folder))?;
    }
    let mut file = File::create_new(path).map_err(Error::file(path))?;
    file.write_all(text.as_bytes()).map_err(Error::file(path))
}
