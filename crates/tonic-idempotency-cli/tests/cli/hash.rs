//! The hash of a key that `tonic-idempotency hash` prints.

use std::{fs, process::Command};

use tonic_idempotency::{IdempotencyKey, policy::KeyFormat, telemetry::key_hash};

use crate::{run, stderr, stdout};

const SECRET: &str = "a secret of 32 bytes, or of more";

/// The hash that the layer has of a key.
fn of_layer(key: &str) -> String {
    let key = IdempotencyKey::new(key, KeyFormat::Any).expect("a key");
    key_hash(SECRET.as_bytes(), key.id().as_uuid())
}

#[test]
fn is_that_of_the_layer() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("secret"), format!("{SECRET}\n")).expect("a file");
    for key in ["order-17", "9f1e3b5c-0c4b-4b0e-9d64-0e1b7c2a6f10", "9F1E3B5C-0C4B-4B0E-9D64-0E1B7C2A6F10"] {
        let printed = stdout(&run(folder.path(), &["hash", key, "--secret-file", "secret"]));
        assert_eq!(printed.trim_end(), of_layer(key));
        let program = env!("CARGO_BIN_EXE_tonic-idempotency");
        let by_environment = Command::new(program).args(["hash", key]).env("IDEMPOTENCY_LOG_SECRET", SECRET).output();
        assert_eq!(stdout(&by_environment.expect("the program runs")), printed);
    }
    assert_eq!(of_layer("9f1e3b5c-0c4b-4b0e-9d64-0e1b7c2a6f10"), of_layer("9F1E3B5C-0C4B-4B0E-9D64-0E1B7C2A6F10"));
}

#[test]
fn needs_a_key_and_the_layers_secret() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("short"), "too short\n").expect("a file");
    for (arguments, expected) in [
        (&["hash", "order-17"][..], "give --secret-file"),
        (&["hash", "order-17", "--secret-file", "short"], "less than 16 bytes"),
        (&["hash", "order-17", "--secret-file", "none"], "none: "),
        (&["hash", "a b", "--secret-file", "short"], "key"),
    ] {
        let message = stderr(&run(folder.path(), arguments));
        assert!(message.contains(expected), "{message}");
    }
}
