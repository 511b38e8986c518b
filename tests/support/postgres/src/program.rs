//! Programs of packages on this machine.

use std::{env, path::PathBuf};

/// The directories that packages install programs to; not every `PATH` has them.
const DIRECTORIES: [&str; 5] =
    ["/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/opt/homebrew/bin", "/opt/homebrew/sbin"];

/// Looks for a program on `PATH`, and in the directories of packages.
///
/// # Errors
///
/// There is none; the text says so.
pub fn find(name: &str) -> Result<PathBuf, String> {
    let on_path: Vec<PathBuf> = env::var_os("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default();
    let directories = on_path.into_iter().chain(DIRECTORIES.into_iter().map(PathBuf::from));
    directories
        .map(|directory| directory.join(name))
        // A relative directory on `PATH` is an accident, and the program starts in another directory.
        .find(|program| program.is_absolute() && program.is_file())
        .ok_or_else(|| format!("the program {name} is neither on PATH nor where packages install it"))
}
