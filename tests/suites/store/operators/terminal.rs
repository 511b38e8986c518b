//! The program `tonic-idempotency` in a terminal, where it asks a person.

use std::io::{Read as _, Write as _};

use portable_pty::{CommandBuilder, PtySize, native_pty_system};

use super::operated::{Operated, texts};
use crate::prelude::*;

const SIZE: PtySize = PtySize { rows: 24, cols: 200, pixel_width: 0, pixel_height: 0 };

/// The texts that a person waits for, and types then.
type Steps<'a> = &'a [(&'a str, &'a str)];

/// The screen at the end of a run, and its exit status.
struct Shown {
    screen: vt100::Parser,
    /// The text before the last step.
    before: String,
    status: u32,
}

impl Shown {
    fn text(&self) -> String {
        self.screen.screen().contents()
    }

    /// Whether a line of the screen that begins with this word is in another colour than the rest.
    fn is_coloured(&self, word: &str) -> bool {
        let screen = self.screen.screen();
        let line = screen.rows(0, SIZE.cols).position(|row| row.starts_with(word)).expect("a line");
        let cell = screen.cell(u16::try_from(line).expect("a row"), 0).expect("a cell");
        cell.fgcolor() != vt100::Color::Default
    }
}

/// Runs the program in a terminal, step by step.
async fn show(address: String, arguments: &[&str], steps: Steps<'_>, variables: &[(&str, &str)]) -> Shown {
    let mut command = CommandBuilder::new(tonic_idempotency_tests::binary("tonic-idempotency", ""));
    command.args(arguments);
    command.env("DATABASE_URL", address);
    command.env_remove("NO_COLOR");
    command.env("TERM", "xterm-256color");
    for (name, value) in variables {
        command.env(name, value);
    }
    let mut steps: Vec<_> = steps.iter().map(|(seen, typed)| (seen.to_string(), typed.to_string())).rev().collect();
    let shown = tokio::task::spawn_blocking(move || {
        let pair = native_pty_system().openpty(SIZE).expect("a terminal");
        let mut child = pair.slave.spawn_command(command).expect("the program runs");
        drop(pair.slave);
        let (mut output, mut input) =
            (pair.master.try_clone_reader().expect("its output"), pair.master.take_writer().expect("its input"));
        let mut screen = vt100::Parser::new(SIZE.rows, SIZE.cols, 0);
        let (mut bytes, mut before) = ([0; 4096], String::new());
        // The end of a terminal is an error on Linux.
        while let Ok(read @ 1..) = output.read(&mut bytes) {
            screen.process(&bytes[..read]);
            if let Some((_, typed)) = steps.pop_if(|(seen, _)| screen.screen().contents().contains(&**seen)) {
                before = screen.screen().contents();
                input.write_all(typed.as_bytes()).expect("it is typed");
            }
        }
        assert!(steps.is_empty(), "{steps:?} is left: {}", screen.screen().contents());
        Shown { screen, before, status: child.wait().expect("the program ends").exit_code() }
    });
    shown.await.expect("no panic")
}

#[tokio::test]
async fn asks_before_it_frees_a_key() {
    let operated = Operated::new().await;
    let address = operated.address_of(OPERATOR);
    let (stuck, reserved) = (Claim { lease: Duration::ZERO, ..any() }, any());
    acquire(&operated.store, &stuck).await;
    acquire(&operated.store, &reserved).await;
    let release = async |claim: &Claim, more: &[&str], answer: Option<&str>| {
        let ([key, user], token) = (texts(claim), claim.reservation.token.to_string());
        let first = ["release", &key, "--user", &user, "--token", &token, "--reason", "r"];
        let answer = answer.map(|answer| format!("{answer}\n"));
        let steps: Vec<_> = answer.iter().map(|answer| ("[y/N]", &**answer)).collect();
        show(address.clone(), &[&first, more].concat(), &steps, &[]).await
    };
    for answer in ["", "n", "no", "yess"] {
        let kept = release(&stuck, &[], Some(answer)).await;
        assert_eq!(kept.status, 1, "{}", kept.text());
        assert!(kept.text().contains("abandoned: its lease ended") && kept.text().contains("nothing was released"));
    }
    assert_eq!(operated.state(&stuck).await, "abandoned");
    // There is nothing to ask about a call that may still run.
    let refused = release(&reserved, &[], None).await;
    assert!(refused.status == 1 && refused.text().contains("--call-is-stopped"), "{}", refused.text());
    assert_eq!(release(&reserved, &["--call-is-stopped"], Some("n")).await.status, 1);
    assert_eq!(release(&stuck, &[], Some("y")).await.status, 0);
    assert_eq!(release(&reserved, &["--call-is-stopped"], Some("YES")).await.status, 0);
    assert_eq!([operated.state(&stuck).await, operated.state(&reserved).await], ["absent", "absent"]);
    operated.drop_owner().await;
}

#[tokio::test]
async fn asks_once_for_a_file() {
    let operated = Operated::new().await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("keys");
    let mut lines = String::new();
    for claim in [any(), any()].map(|claim| Claim { lease: Duration::ZERO, ..claim }) {
        acquire(&operated.store, &claim).await;
        let ([key, user], token) = (texts(&claim), claim.reservation.token);
        lines += &format!("{{\"key_id\":\"{key}\",\"owner\":\"{user}\",\"token\":\"{token}\"}}\n");
    }
    fs::write(&file, lines).expect("a file");
    let release = ["release", "--from", file.to_str().expect("UTF-8"), "--reason", "r"];
    for (answer, status, left) in [("n\n", 1, 2), ("y\n", 0, 0)] {
        let shown = show(operated.address_of(OPERATOR), &release, &[("[y/N]", answer)], &[]).await;
        assert_eq!(shown.status, status, "{}", shown.text());
        assert!(shown.text().contains("Release 2 keys"), "{}", shown.text());
        assert_eq!(count(&operated.superuser, "tenant.idempotency_keys").await, left);
    }
    operated.drop_owner().await;
}

#[tokio::test]
async fn shows_states_in_colours_unless_they_are_not_wanted() {
    let operated = Operated::new().await;
    acquire(&operated.store, &Claim { lease: Duration::ZERO, ..any() }).await;
    for (variables, coloured) in [(&[][..], true), (&[("NO_COLOR", "1")], false)] {
        let shown = show(operated.address_of(OPERATOR), &["list"], &[], variables).await;
        assert_eq!((shown.status, shown.is_coloured("abandoned")), (0, coloured), "{}", shown.text());
    }
    operated.drop_owner().await;
}

/// Everything but the numbers.
#[tokio::test]
async fn shows_the_tables_and_the_command_for_a_line_until_q() {
    let operated = Operated::new().await;
    let expired = Claim { lease: Duration::ZERO, retention: Duration::ZERO, ..any() };
    acquire(&operated.store, &expired).await;
    // Six lines down.
    let choose = format!("{}\r", "\u{1b}[B".repeat(6));
    let steps = [("the oldest record waits for the sweep", &*choose), ("tonic-idempotency sweep", "q")];
    let top = ["top", "--metrics", "http://127.0.0.1:1/metrics"];
    let shown = show(operated.address_of(OPERATOR), &top, &steps, &[]).await;
    assert_eq!(shown.status, 0, "{}", shown.before);
    assert!(!shown.text().contains("refusals/s"), "the terminal is as it was: {}", shown.text());
    for expected in ["server       PostgreSQL", "migrations   V9", "127.0.0.1:1", "refusals/s"] {
        assert!(shown.before.contains(expected), "{}", shown.before);
    }
    let refused = operated.run(&["top"]).await;
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    operated.drop_owner().await;
}

/// Its keys are read all the same.
#[tokio::test]
async fn says_that_a_database_hangs_and_ends() {
    let mut operated = Operated::new().await;
    let address = operated.address_of(OPERATOR);
    let held = operated.superuser.transaction().await.expect("a transaction");
    held.batch_execute("LOCK TABLE tenant.idempotency_keys").await.expect("the lock");
    let shown = show(address, &["top"], &[("the database does not answer", "q")], &[]).await;
    assert_eq!(shown.status, 0, "{}", shown.before);
    held.rollback().await.expect("the end");
    operated.drop_owner().await;
}
