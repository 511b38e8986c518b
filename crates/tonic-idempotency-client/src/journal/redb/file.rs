//! The file of a journal: its names, and how it is made.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

/// The suffix of a file that is not a journal yet, and the number of attempts to make a journal.
const UNFINISHED: &str = ".new";
const ATTEMPTS: u32 = 10;

/// The suffix that is added to the name of a damaged journal. The file is kept.
const DAMAGED: &str = ".damaged";

/// Makes an empty journal under a temporary name, and renames it when it is whole and durable: a file that a process left behind while
/// writing the first pages would never open again. If another process is faster, its journal is kept.
pub(super) fn make(path: &Path, fill: impl Fn(&Path) -> io::Result<()>) -> io::Result<()> {
    remove_unfinished(path)?;
    for _ in 0..ATTEMPTS {
        let made = unnamed(path, &fill).and_then(|unfinished| name_it(&unfinished, path));
        match made {
            Ok(()) => return sync_directory(path),
            // Another process has taken it for a leftover, and removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if path.exists() {
                    return sync_directory(path);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("other processes keep making and removing it"))
}

/// Replaces a damaged file by a new journal. Keeps the content of the damaged file under another name, and returns that name.
pub(super) fn replace(path: &Path, content: &[u8], fill: impl Fn(&Path) -> io::Result<()>) -> io::Result<PathBuf> {
    let unfinished = unnamed(path, &fill)?;
    let kept = set_aside(path, content)?;
    fs::rename(unfinished, path)?;
    sync_directory(path)?;
    Ok(kept)
}

/// Makes a journal under a temporary name, and returns that name. The content is durable on return.
fn unnamed(path: &Path, fill: impl Fn(&Path) -> io::Result<()>) -> io::Result<PathBuf> {
    let unfinished = PathBuf::from(with(path, &format!(".{:016x}{UNFINISHED}", fastrand::u64(..))));
    fill(&unfinished)?;
    File::open(&unfinished)?.sync_all()?;
    Ok(unfinished)
}

/// Gives a file this name, if no other has it.
fn name_it(unfinished: &Path, path: &Path) -> io::Result<()> {
    match fs::hard_link(unfinished, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(error),
        Ok(()) => {}
        // A file system without links.
        Err(_) => return fs::rename(unfinished, path),
    }
    fs::remove_file(unfinished).or_else(if_missing)
}

/// Writes the content of a damaged file into a new file, and returns its path.
fn set_aside(path: &Path, content: &[u8]) -> io::Result<PathBuf> {
    for number in 1.. {
        let end = if number == 1 { DAMAGED.to_owned() } else { format!("{DAMAGED}-{number}") };
        let kept = PathBuf::from(with(path, &end));
        match options().create_new(true).open(&kept) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(mut file) => {
                file.write_all(content)?;
                file.sync_all()?;
                return Ok(kept);
            }
        }
    }
    unreachable!("the numbers do not end")
}

/// Removes the temporary files of processes that died before they had removed them. A process that is alive makes its file
/// again, if there is no journal yet.
pub(super) fn remove_unfinished(path: &Path) -> io::Result<()> {
    unfinished(path)?.into_iter().try_for_each(|left| fs::remove_file(left).or_else(if_missing))
}

/// Returns the temporary files of this journal.
fn unfinished(path: &Path) -> io::Result<Vec<PathBuf>> {
    let (Some(name), directory) = (path.file_name().and_then(OsStr::to_str), directory(path)) else {
        return Ok(Vec::new());
    };
    let is_unfinished = |other: &OsStr| {
        other
            .to_str()
            .and_then(|it| it.strip_prefix(name))
            .is_some_and(|it| it.starts_with('.') && it.ends_with(UNFINISHED))
    };
    let files = fs::read_dir(directory)?.filter_map(Result::ok);
    Ok(files.filter(|file| is_unfinished(&file.file_name())).map(|file| file.path()).collect())
}

/// Opens the file, or makes it.
pub(super) fn open(path: &Path) -> io::Result<File> {
    options().create(true).truncate(false).open(path)
}

/// A file has the messages of calls: only its owner may read it.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn with(path: &Path, end: &str) -> OsString {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name
}

fn if_missing(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

fn directory(path: &Path) -> &Path {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    directory.unwrap_or(Path::new("."))
}

/// Makes the name of a new file durable.
fn sync_directory(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        File::open(directory(path))?.sync_all()?;
    }
    Ok(())
}
