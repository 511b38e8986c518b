//! The owner of a journal's file, and the files that are not a journal's.

use std::{
    error::Error as _,
    io::{BufRead as _, BufReader, Lines as InputLines, Write as _},
    process::{Child, ChildStdin, ChildStdout, Stdio},
    sync::mpsc,
    thread,
};

use tonic_idempotency_client::journal::{JournalStore as _, RedbStore};

use super::prelude::*;
use super::{
    child::{OWNED, OWNED_ID, command, said},
    damage::journals,
    harness::{Directory, keys},
};

/// How often two processes open a damaged journal at the same time.
const ROUNDS: usize = 50;

/// Files of the application beside its journal.
const OTHERS: [&str; 4] = [
    "orders.journal.0123456789abcde.new",
    "orders.journal.0123456789abcdeg.new",
    "orders.journal.backup.new",
    "orders.journal2.0123456789abcdef.new",
];

/// The names in a directory.
fn names(directory: &Directory) -> Vec<String> {
    let files = fs::read_dir(directory.path()).expect("a directory");
    let mut names: Vec<_> = files.map(|file| file.expect("a file").file_name().into_string().expect("text")).collect();
    names.sort();
    names
}

/// A process that opens the journals that it is told.
struct Contender {
    process: Child,
    asks: ChildStdin,
    says: InputLines<BufReader<ChildStdout>>,
}

impl Contender {
    fn start() -> Self {
        let mut process = command("own_each", Path::new("")).stdin(Stdio::piped()).spawn().expect("a process");
        let says = BufReader::new(process.stdout.take().expect("its output")).lines();
        Self { asks: process.stdin.take().expect("its input"), says, process }
    }

    fn ask(&mut self, file: &Path) {
        writeln!(self.asks, "{}", file.display()).expect("it lives");
    }

    fn said(&mut self) -> String {
        self.says.find_map(|line| said(&line.expect("text")).map(str::to_owned)).expect("an answer")
    }

    fn end(self) {
        let Self { mut process, asks, says } = self;
        drop((asks, says));
        process.wait().expect("a process");
    }
}

#[tokio::test]
async fn is_one_of_two_processes_that_open_a_damaged_journal() {
    let (expected, [mut damaged, _]) = journals(&Directory::new(), Journal::builder()).await;
    damaged[16..320].fill(0);
    let mut contenders = [Contender::start(), Contender::start()];
    let mut rounds = Vec::new();
    for round in 0..ROUNDS {
        let directory = Directory::new();
        for other in OTHERS {
            fs::write(directory.path().join(other), other).expect("a file");
        }
        fs::write(directory.file(), &damaged).expect("a file");
        contenders.iter_mut().for_each(|it| it.ask(&directory.file()));
        let said = contenders.each_mut().map(Contender::said);
        let (owners, refused): (Vec<_>, Vec<_>) = said.iter().partition(|said| *said == OWNED);
        assert!(owners.len() == 1 && refused[0].contains("is open already"), "round {round}: {said:?}");
        rounds.push(directory);
    }
    contenders.into_iter().for_each(Contender::end);
    for directory in rounds {
        let mut left = names(&directory);
        left.retain(|name| !OTHERS.contains(&&**name));
        assert_eq!(left, ["orders.journal", "orders.journal.damaged", "orders.journal.lock"]);
        for other in OTHERS {
            assert_eq!(fs::read_to_string(directory.path().join(other)).expect("a file"), other);
        }
        assert_eq!(fs::read(directory.path().join("orders.journal.damaged")).expect("a file"), damaged);
        let record = RedbStore::open(directory.file()).expect("a journal").read(OWNED_ID).expect("a record");
        assert_eq!(record, Some(Bytes::from_static(OWNED.as_bytes())));
        let found = keys(&Journal::open(directory.file()).expect("a journal")).await;
        assert!(expected.keys().all(|key| found.contains(key)), "{found:?}");
    }
}

#[cfg(unix)]
#[test]
fn is_that_of_the_file_behind_links() {
    let directory = Directory::new();
    let (link, chain) = (directory.path().join("link"), directory.path().join("chain"));
    std::os::unix::fs::symlink("orders.journal", &link).expect("a link");
    std::os::unix::fs::symlink(&link, &chain).expect("a link");
    for path in [&chain, &directory.file()] {
        let _journal = Journal::open(path).expect("a journal");
        for other in [&link, &chain, &directory.file()] {
            assert!(matches!(Journal::open(other), Err(JournalError::InUse { .. })), "{}", other.display());
        }
    }
    assert_eq!(names(&directory), ["chain", "link", "orders.journal", "orders.journal.lock"]);
}

#[cfg(unix)]
#[test]
fn refuses_unread_what_is_no_regular_file() {
    for (program, arguments) in [("mkfifo", &[][..]), ("mkdir", &[]), ("mknod", &["c", "1", "3"])] {
        let directory = Directory::new();
        let made = Command::new(program).arg(directory.file()).args(arguments).output().expect("a program");
        if !made.status.success() {
            scratch_postgres::skip(program, String::from_utf8_lossy(&made.stderr).into_owned());
            continue;
        }
        let kind = fs::metadata(directory.file()).expect("a file").file_type();
        let (opened, opening) = mpsc::channel();
        let file = directory.file();
        thread::spawn(move || opened.send(Journal::open(file)));
        // A fifo keeps its reader for ever.
        let error = opening.recv_timeout(Duration::from_secs(10)).expect(program).expect_err(program);
        let cause = error.source().map(ToString::to_string).unwrap_or_default();
        assert!(cause.contains("not a regular file"), "{program}: {cause}");
        assert_eq!(names(&directory), ["orders.journal"], "{program}");
        assert_eq!(fs::metadata(directory.file()).expect("a file").file_type(), kind, "{program}");
    }
}

#[test]
fn makes_a_journal_of_an_empty_file_with_a_warning() {
    let (lines, _guard) = Lines::collect(LevelFilter::WARN);
    let directory = Directory::new();
    for other in OTHERS {
        fs::write(directory.path().join(other), other).expect("a file");
    }
    fs::write(directory.path().join("orders.journal.0123456789abcdef.new"), "the first page").expect("a file");
    fs::write(directory.file(), "").expect("a file");
    drop(Journal::open(directory.file()).expect("a journal"));
    assert_eq!(lines.count("the file of the journal is empty"), 1);
    let mut left = names(&directory);
    left.retain(|name| !OTHERS.contains(&&**name));
    assert_eq!((left, lines.count("WARN")), (vec!["orders.journal".to_owned(), "orders.journal.lock".to_owned()], 1));
    assert_eq!(names(&directory).len(), 2 + OTHERS.len());
}
