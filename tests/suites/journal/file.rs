//! The file of a journal: two processes, a full disk, a process that is killed while it makes it.

use std::{env, thread, time::Instant};

use super::prelude::*;
use super::{
    child::{beside, command, said},
    harness::{Directory, keys},
};

/// The largest size of a file of the other process, in KiB, and that of a small disk.
const SMALL: u32 = 4096;

/// How often a process is killed while it makes a journal.
const KILLS: u32 = 60;

#[tokio::test]
async fn is_refused_to_a_second_journal_in_this_process_or_another_one() {
    let directory = Directory::new();
    let journal = Journal::open(directory.file()).expect("a journal");
    let name = directory.file().display().to_string();
    let second = Journal::open(directory.file()).expect_err("it is open");
    assert!(matches!(&second, JournalError::InUse { journal } if *journal == name), "{second:?}");
    let output = command("open", &directory.file()).output().expect("a process");
    let output = String::from_utf8(output.stdout).expect("text");
    let refused = output.lines().find_map(said).expect("an answer");
    assert!(refused.contains(&name) && refused.contains("is open already"), "{refused}");
    drop(journal);
    Journal::open(directory.file()).expect("the first has been closed");
}

#[cfg(unix)]
#[test]
fn is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;

    let directory = Directory::new();
    Journal::open(directory.file()).expect("a journal");
    assert_eq!(std::fs::metadata(directory.file()).expect("a file").permissions().mode() & 0o777, 0o600);
}

#[test]
fn that_is_none_or_cannot_be_made_is_an_error_with_its_name() {
    let directory = Directory::new();
    std::fs::write(directory.file(), "this is a text, and no journal").expect("a file");
    for path in [directory.file(), directory.path().join("absent").join("orders.journal")] {
        let error = Journal::open(&path).expect_err("no journal");
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    }
}

/// It opens no matter how much of it was written.
#[test]
fn of_a_process_that_is_killed_while_it_makes_it_opens() {
    let directory = Directory::new();
    let begun = Instant::now();
    command("open", &directory.file()).output().expect("a process");
    let took = begun.elapsed();
    for part in 0..KILLS {
        let directory = Directory::new();
        let mut child = command("open", &directory.file()).spawn().expect("a process");
        // The process itself takes most of the time.
        thread::sleep(took * (KILLS + part) / (2 * KILLS));
        child.kill().expect("a process");
        child.wait().expect("a process");
        drop(Journal::open(directory.file()).unwrap_or_else(|error| panic!("after {part} of {KILLS}: {error}")));
        let mut left: Vec<_> =
            fs::read_dir(directory.path()).expect("a directory").map(|it| it.expect("a file").file_name()).collect();
        left.sort();
        assert_eq!(left, ["orders.journal", "orders.journal.lock"]);
    }
}

/// As a process leaves it that dies before the journal has its name.
#[test]
fn that_is_not_finished_is_none_and_is_removed() {
    let directory = Directory::new();
    let mut left = directory.file().into_os_string();
    left.push(".0123456789abcdef.new");
    fs::write(&left, "the first page").expect("a file");
    Journal::open(directory.file()).expect("a journal");
    assert!(!Path::new(&left).exists());
    // It had just got its name.
    fs::hard_link(directory.file(), &left).expect("another name");
    Journal::open(directory.file()).expect("a journal");
    assert!(!Path::new(&left).exists());
}

#[tokio::test]
async fn that_has_no_space_fails_the_call_before_it_is_sent() {
    let directory = Directory::new();
    fills_up(limited("fill", &directory.file()), &directory.file()).await;
}

/// The command of a process whose files have a largest size.
fn limited(role: &str, file: &Path) -> Command {
    // The shell ignores the signal, and so does the program that replaces it: a write beyond the limit is an error.
    let (mut limited, program) = (Command::new("sh"), command(role, file));
    limited.args(["-c", &format!("ulimit -f {}; trap '' XFSZ; exec \"$0\" \"$@\"", SMALL * 2)]);
    limited.arg(program.get_program()).args(program.get_args());
    limited.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    limited
}

#[tokio::test]
async fn on_a_full_disk_fails_the_call_before_it_is_sent() {
    let Some(disk) = SmallDisk::mount() else { return };
    fs::write(beside(&disk.0.file()), vec![7; 1 << 20]).expect("space");
    fills_up(command("fill", &disk.0.file()), &disk.0.file()).await;
}

#[test]
fn on_a_full_disk_sends_what_it_has() {
    let Some(disk) = SmallDisk::mount() else { return };
    let output = command("fill_and_resume", &disk.0.file()).output().expect("a process");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// A disk of a few MiB.
struct SmallDisk(Directory);

impl SmallDisk {
    /// `None` if this process may not mount.
    fn mount() -> Option<Self> {
        let directory = Directory::new();
        let size = format!("size={SMALL}k");
        let mut mount = Command::new("mount");
        let mounted = mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(directory.path()).output();
        let why = match mounted {
            Ok(mounted) if mounted.status.success() => return Some(Self(directory)),
            Ok(mounted) => String::from_utf8_lossy(&mounted.stderr).into_owned(),
            Err(error) => error.to_string(),
        };
        scratch_postgres::skip("mount", why);
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(self.0.path()).status().expect("umount");
    }
}

async fn fills_up(mut program: Command, file: &Path) {
    let output = program.output().expect("a process");
    let text = String::from_utf8(output.stdout).expect("text");
    let mut lines = text.lines().filter_map(said);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    let message = lines.next().expect("an answer");
    assert!(message.starts_with("the call was not sent: there is no space for the journal "), "{message}");
    assert!(message.contains(&file.display().to_string()) && message.contains("free some"), "{message}");
    let durable: Vec<_> = lines.collect();
    assert!(durable.len() > 5, "{text}");
    assert_eq!(keys(&Journal::open(file).expect("a journal")).await, durable);
}

#[test]
fn the_variable_of_the_other_process_is_not_set_for_this_one() {
    assert!(env::vars().all(|(name, _)| !name.starts_with("JOURNAL_TEST_")));
}
