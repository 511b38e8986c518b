//! Servers that cannot be checked, and bad input.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    thread,
};

use crate::{
    command::{METHOD, REQUEST, TOKEN, check, check_all, verdicts},
    server::Server,
};

const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/shop.bin"));

#[test]
fn bad_input_is_named() {
    let server = Server::start(None);
    let url = server.url();
    let request = |json: &'static str| [METHOD, "--request", json, "--yes"];
    for (arguments, expected) in [
        (["check.v1.Shop/CreateOrders", "--request", REQUEST, "--yes"], "did you mean CreateOrder?"),
        (["check.v1.Shpo/CreateOrder", "--request", REQUEST, "--yes"], "did you mean check.v1.Shop?"),
        (["CreateOrder", "--request", REQUEST, "--yes"], "no method, such as"),
        (["check.v1.Shop/WatchOrders", "--request", REQUEST, "--yes"], "is a stream"),
        (request(r#"{"reference": "{{uuid}}", "itme": "a"}"#), "itme"),
        (request(r#"{"reference": "{{uuid}}", "discount": "much"}"#), "discount"),
        (request(r#"{"reference": "{{uuid}}""#), "EOF"),
        (request(r#"{"reference": "17"}"#), "{{uuid}}"),
        ([METHOD, "--request", REQUEST, "--only=E1,Z9"], "Z9"),
        ([METHOD, "--request", REQUEST, "--header=no colon"], "no header"),
        ([METHOD, "--request", REQUEST, "--header=a: ${NOT_SET}"], "NOT_SET is not set"),
        ([METHOD, "--request", REQUEST, "--descriptor-set=none"], "none: "),
        ([METHOD, "--request", REQUEST, "--count=true"], "give --yes"),
    ] {
        let said = check(&[&[url.as_str()][..], &arguments].concat());
        assert!(said.status == Some(2) && said.stderr.contains(expected), "{arguments:?}: {}", said.stderr);
    }
}

#[test]
fn a_server_that_cannot_be_checked_is_no_server_that_fails() {
    let server = Server::start(None);
    let url = server.url();
    let closed = "http://127.0.0.1:1";
    let refused = check(&[&url, METHOD, "--request", r#"{"item": "{{uuid}}"}"#, "--yes"]);
    assert!(
        refused.status == Some(3) && refused.stderr.contains("a call with a key: InvalidArgument"),
        "{}",
        refused.stderr
    );
    let encrypted = url.replace("http:", "https:");
    for (url, more, expected) in [
        (closed, "--json", "refused"),
        (encrypted.as_str(), "--json", "https:"),
        (url.as_str(), "--count=echo many", "--count prints no number"),
        (url.as_str(), "--count=echo 0", "--count prints 0"),
        (url.as_str(), "--slow=x-fast: 1", "--slow: the call took"),
        (url.as_str(), "--also=http://127.0.0.1:1", "refused"),
    ] {
        let said = check(&[url, METHOD, "--request", REQUEST, "--yes", more]);
        let status = if more.starts_with("--slow") { 2 } else { 3 };
        assert!(
            said.status == Some(status) && said.stderr.contains(expected),
            "{more}: {:?} {}",
            said.status,
            said.stderr
        );
    }
}

#[test]
fn types_come_from_a_file_if_there_is_no_reflection() {
    let server = Server::start_with(None, &["--reflection", "v1alpha"]);
    let said = check(&[&server.url(), METHOD, "--request", REQUEST, "--yes", "--only=R1"]);
    assert!(said.status == Some(0), "{}{}", said.stdout, said.stderr);
    let server = Server::start_with(None, &["--reflection", "none"]);
    let (url, folder) = (server.url(), tempfile::tempdir().expect("a folder"));
    let base = [url.as_str(), METHOD, "--request", REQUEST, "--yes", "--only=R1,I1"];
    let said = check(&base);
    assert!(said.status == Some(2) && said.stderr.contains("--descriptor-set FILE"), "{}", said.stderr);
    let file = folder.path().join("shop.bin");
    fs::write(&file, DESCRIPTORS).expect("a file");
    let said = check(&[&base[..], &["--descriptor-set", file.to_str().expect("text")]].concat());
    assert!(said.status == Some(0), "{}{}", said.stdout, said.stderr);
    // Nothing counts effects.
    assert!(
        said.stdout.contains("not checked   I1") && said.stdout.contains("1 ok, 0 FAILED, 1 not checked"),
        "{}",
        said.stdout
    );
}

#[test]
fn a_failure_can_be_repeated_by_what_is_printed() {
    let server = Server::start(Some("no-hash"));
    let junit = server.path("junit.xml");
    let said = check_all(&server, &["--only", "I1,R1", "--junit", junit.to_str().expect("text")]);
    assert_eq!(said.status, Some(1), "{}", said.stderr);
    assert!(said.stdout.contains("OK, with the first response"), "{}", said.stdout);
    let repeat = said.stdout.lines().find_map(|line| line.trim().strip_prefix("--only I1, or: grpcurl "));
    let repeat = repeat.expect("a line that repeats it");
    assert!(
        repeat.starts_with("-plaintext -expand-headers -H 'authorization: Bearer ${TOKEN}' -H 'x-user: …'"),
        "{repeat}"
    );
    assert!(repeat.contains("-H 'idempotency-key: ") && repeat.ends_with(&format!(" {METHOD}")), "{repeat}");
    let junit = fs::read_to_string(junit).expect("a report");
    assert!(junit.contains(r#"tests="2""#) && junit.contains(r#"failures="1""#), "{junit}");
}

/// A server that repeats the token in its errors; the command looks for it in all output.
#[test]
fn no_report_has_a_token() {
    let said = check_all(&Server::start(Some("reflection-echoes-token")), &[]);
    assert!(said.status == Some(2) && said.stderr.contains("no answer for Bearer ${TOKEN}"), "{}", said.stderr);
    let server = Server::start(Some("echoes-token"));
    let junit = server.path("junit.xml");
    for format in ["--json", "--level=core"] {
        let said = check_all(&server, &[format, "--only=R1,R2,F1,K1", "--junit", junit.to_str().expect("text")]);
        assert!(said.status == Some(1) && said.stdout.contains("no answer for Bearer ${TOKEN}"), "{}", said.stdout);
        let junit = fs::read_to_string(&junit).expect("a report");
        assert!(!junit.contains(TOKEN) && junit.contains("${TOKEN}"), "{junit}");
    }
}

#[test]
fn an_answer_that_is_half_or_garbage_or_late_is_a_failure() {
    thread::scope(|scope| {
        for fault in ["replays-half", "replays-garbage", "replays-late"] {
            scope.spawn(move || {
                let said = check_all(&Server::start(Some(fault)), &["--json", "--only=R1"]);
                let found = verdicts(&said);
                assert_eq!(said.status, Some(1), "{fault}: {}", said.stderr);
                assert_eq!(found["R1"].0, "failed", "{fault}: {found:?}");
            });
        }
    });
}

/// Sends what is no HTTP/2, or nothing.
#[test]
fn what_does_not_speak_http_2_cannot_be_checked() {
    for said in [&b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n"[..], b"\x00\xff\x00garbage", b""] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        thread::spawn(move || {
            for mut socket in listener.incoming().flatten() {
                let _ = socket.write_all(said);
                let mut rest = [0; 1024];
                while matches!(socket.read(&mut rest), Ok(1..)) && said.is_empty() {}
            }
        });
        let answer = check(&[&url, METHOD, "--request", REQUEST, "--yes"]);
        assert_eq!(answer.status, Some(3), "{}", answer.stderr);
    }
}
