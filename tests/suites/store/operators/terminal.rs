//! The program `tonic-idempotency` in a terminal, where it asks a person.

use std::io::{Read as _, Write as _};

use portable_pty::{CommandBuilder, PtySize, native_pty_system};

use super::operated::{Operated, texts};
use crate::prelude::*;

const SIZE: PtySize = PtySize { rows: 24, cols: 200, pixel_width: 0, pixel_height: 0 };

/// The screen at the end of a run, and its exit status.
struct Shown {
    screen: vt100::Parser,
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

/// Runs the program in a terminal, and answers its questions with these lines.
async fn show(address: String, arguments: &[&str], answers: &[&str], variables: &[(&str, &str)]) -> Shown {
    let mut command = CommandBuilder::new(tonic_idempotency_tests::binary("tonic-idempotency", ""));
    command.args(arguments);
    command.env("DATABASE_URL", address);
    command.env_remove("NO_COLOR");
    command.env("TERM", "xterm-256color");
    for (name, value) in variables {
        command.env(name, value);
    }
    let mut answers: Vec<_> = answers.iter().map(|answer| format!("{answer}\n")).rev().collect();
    let shown = tokio::task::spawn_blocking(move || {
        let pair = native_pty_system().openpty(SIZE).expect("a terminal");
        let mut child = pair.slave.spawn_command(command).expect("the program runs");
        drop(pair.slave);
        let (mut output, mut input) =
            (pair.master.try_clone_reader().expect("its output"), pair.master.take_writer().expect("its input"));
        let mut screen = vt100::Parser::new(SIZE.rows, SIZE.cols, 0);
        let mut bytes = [0; 4096];
        // The end of a terminal is an error on Linux.
        while let Ok(read @ 1..) = output.read(&mut bytes) {
            screen.process(&bytes[..read]);
            if screen.screen().contents().trim_end().ends_with("[y/N]")
                && let Some(answer) = answers.pop()
            {
                input.write_all(answer.as_bytes()).expect("an answer");
            }
        }
        assert!(answers.is_empty(), "not asked: {}", screen.screen().contents());
        Shown { screen, status: child.wait().expect("the program ends").exit_code() }
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
    let release = async |claim: &Claim, more: &[&str], answers: &[&str]| {
        let ([key, user], token) = (texts(claim), claim.reservation.token.to_string());
        let first = ["release", &key, "--user", &user, "--token", &token, "--reason", "r"];
        show(address.clone(), &[&first, more].concat(), answers, &[]).await
    };
    for answer in ["", "n", "no", "yess"] {
        let kept = release(&stuck, &[], &[answer]).await;
        assert_eq!(kept.status, 1, "{}", kept.text());
        assert!(kept.text().contains("abandoned: its lease ended") && kept.text().contains("nothing was released"));
    }
    assert_eq!(operated.state(&stuck).await, "abandoned");
    // There is nothing to ask about a call that may still run.
    let refused = release(&reserved, &[], &[]).await;
    assert!(refused.status == 1 && refused.text().contains("--call-is-stopped"), "{}", refused.text());
    assert_eq!(release(&reserved, &["--call-is-stopped"], &["n"]).await.status, 1);
    assert_eq!(release(&stuck, &[], &["y"]).await.status, 0);
    assert_eq!(release(&reserved, &["--call-is-stopped"], &["YES"]).await.status, 0);
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
    for (answer, status, left) in [("n", 1, 2), ("y", 0, 0)] {
        let shown = show(operated.address_of(OPERATOR), &release, &[answer], &[]).await;
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
