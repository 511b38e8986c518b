//! The file of a journal: its names, and how it is made.

use std::{
    ffi::OsStr,
    fs::{self, DirEntry, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

/// The suffix of a file that is not a journal yet, and the digits of the random number before it.
const UNFINISHED: &str = ".new";
const DIGITS: usize = 16;

/// The suffix that is added to the name of a damaged journal. The file is kept.
const DAMAGED: &str = ".damaged";

/// Makes an empty journal under a temporary name, and renames it when it is whole and durable: a file that a process left behind while
/// writing the first pages would never open again.
pub(super) fn make(path: &Path, fill: impl Fn(&Path) -> io::Result<()>) -> io::Result<()> {
    fs::rename(unnamed(path, fill)?, path)?;
    sync_directory(path)
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
    let number = fastrand::u64(..);
    let unfinished = beside(path, &format!(".{number:0DIGITS$x}{UNFINISHED}"));
    fill(&unfinished)?;
    File::open(&unfinished)?.sync_all()?;
    Ok(unfinished)
}

/// Writes the content of a damaged file into a new file, and returns its path.
fn set_aside(path: &Path, content: &[u8]) -> io::Result<PathBuf> {
    for number in 1.. {
        let end = if number == 1 { DAMAGED.to_owned() } else { format!("{DAMAGED}-{number}") };
        let kept = beside(path, &end);
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

/// Removes the temporary files of processes that died before they had renamed them.
pub(super) fn remove_unfinished(path: &Path) -> io::Result<()> {
    unfinished(path)?.into_iter().try_for_each(fs::remove_file)
}

/// Returns the temporary files of this journal.
fn unfinished(path: &Path) -> io::Result<Vec<PathBuf>> {
    let Some(name) = path.file_name().and_then(OsStr::to_str) else { return Ok(Vec::new()) };
    let is_unfinished = |other: &DirEntry| {
        let other_name = other.file_name();
        let number =
            other_name.to_str().and_then(|it| it.strip_prefix(name)?.strip_prefix('.')?.strip_suffix(UNFINISHED));
        number
            .is_some_and(|it| it.len() == DIGITS && it.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')))
            && other.file_type().is_ok_and(|kind| kind.is_file())
    };
    let files = fs::read_dir(directory(path))?.filter_map(Result::ok);
    Ok(files.filter(is_unfinished).map(|file| file.path()).collect())
}

/// Returns the length of the file at this path, if there is one. A file that is no regular one is refused, unread: it is no journal, and
/// may be a device, or keep its reader for ever.
pub(super) fn length(path: &Path) -> io::Result<Option<u64>> {
    match fs::metadata(path) {
        Ok(file) if file.is_file() => Ok(Some(file.len())),
        Ok(_) => Err(io::Error::other("it is not a regular file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens a file that exists.
pub(super) fn open(path: &Path) -> io::Result<File> {
    options().open(path)
}

/// Opens the file, or makes it.
pub(super) fn open_or_make(path: &Path) -> io::Result<File> {
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

/// Returns the path with this end added to its name.
pub(super) fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

pub(super) fn directory(path: &Path) -> &Path {
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
