//! The program in a terminal, where it asks before it calls.

use std::io::{Read as _, Write as _};

use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use tonic_idempotency_tests::binary;

use crate::{
    command::{METHOD, REQUEST},
    server::Server,
};

const SIZE: PtySize = PtySize { rows: 24, cols: 200, pixel_width: 0, pixel_height: 0 };

/// Checks one promise, types an answer to the question, and returns all that was shown, and the exit status.
fn answer(server: &Server, answer: &str) -> (String, u32) {
    let mut command = CommandBuilder::new(binary("tonic-idempotency", ""));
    command.args(["check", &server.url(), METHOD, "--request", REQUEST, "--slow", "x-slow: 1000", "--only", "R1,F9"]);
    command.env("TERM", "xterm-256color");
    let pair = native_pty_system().openpty(SIZE).expect("a terminal");
    let mut child = pair.slave.spawn_command(command).expect("the program runs");
    drop(pair.slave);
    let mut output = pair.master.try_clone_reader().expect("its output");
    let mut input = pair.master.take_writer().expect("its input");
    let (mut bytes, mut shown, mut is_answered) = ([0; 4096], String::new(), false);
    // The end of a terminal is an error on Linux.
    while let Ok(read @ 1..) = output.read(&mut bytes) {
        shown.push_str(&String::from_utf8_lossy(&bytes[..read]));
        if !is_answered && shown.contains("[y/N]") {
            is_answered = true;
            input.write_all(format!("{answer}\n").as_bytes()).expect("it is typed");
        }
    }
    (shown, child.wait().expect("the program ends").exit_code())
}

#[test]
fn asks_before_it_calls_and_shows_how_far_it_is() {
    let server = Server::start(None);
    let (shown, status) = answer(&server, "n");
    assert!(status == 2 && shown.contains("About 14 calls to 127.0.0.1:"), "{shown}");
    assert!(shown.contains("nothing was called") && !server.path("effects").exists(), "{shown}");
    let (shown, status) = answer(&server, "y");
    assert!(status == 0 && shown.contains("1 ok, 0 FAILED, 1 not checked"), "{shown}");
    assert!(shown.contains("0/2") && shown.contains("1/2"), "{shown}");
}
