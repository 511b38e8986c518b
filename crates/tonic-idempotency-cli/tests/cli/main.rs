//! The program `tonic-idempotency`, run as a user runs it. The suite `runners` runs the files that it writes.

mod migrations;

use std::{
    path::Path,
    process::{Command, Output},
};

/// Runs the program in a folder.
fn run(folder: &Path, arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_tonic-idempotency");
    Command::new(program).current_dir(folder).args(arguments).output().expect("the program runs")
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

/// The message of a run that failed.
fn stderr(output: &Output) -> String {
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}
