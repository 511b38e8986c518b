//! The removal of servers.

use std::{
    env,
    io::{BufRead as _, BufReader},
    net::TcpStream,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use scratch_postgres::skip;
use scratch_redis::Server;

/// Set for the process that starts a server and is killed.
const OWNER: &str = "SCRATCH_REDIS_TEST_OWNER";

fn are_missing() -> bool {
    let missing = scratch_redis::missing();
    if let Some(why) = &missing {
        skip("redis", why);
    }
    missing.is_some()
}

fn until(what: &str, condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        thread::yield_now();
    }
}

#[test]
fn a_server_is_removed_with_its_files() {
    if are_missing() {
        return;
    }
    let server = Server::start(&[]).expect("a server");
    let (address, directory) = (server.address(), directory(&server));
    assert!(std::fs::exists(&directory).expect("a directory"));
    drop(server);
    assert!(TcpStream::connect(address).is_err());
    assert!(!std::fs::exists(&directory).expect("its parent"));
}

fn directory(server: &Server) -> String {
    server.ask(&["CONFIG", "GET", "dir"]).lines().nth(1).expect("a directory").to_owned()
}

/// Not a test of its own: starts a server, tells where, and waits to be killed.
#[test]
#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn owner() {
    if env::var_os(OWNER).is_none() {
        return;
    }
    let server = Server::start(&[]).expect("a server");
    println!("\nat {} in {}", server.address(), directory(&server));
    loop {
        thread::park();
    }
}

#[test]
fn a_server_is_removed_after_its_owner_was_killed() {
    if are_missing() {
        return;
    }
    let mut owner = Command::new(env::current_exe().expect("this program"))
        .args(["--exact", "owner", "--nocapture"])
        .env(OWNER, "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("the owner starts");
    let lines = BufReader::new(owner.stdout.take().expect("its output")).lines();
    let line = lines.map_while(Result::ok).find(|line| line.starts_with("at ")).expect("the server has started");
    let [_, address, _, directory] = *line.split(' ').collect::<Vec<_>>() else { panic!("{line}") };
    assert!(TcpStream::connect(address).is_ok());
    owner.kill().expect("it is killed");
    owner.wait().expect("it has ended");
    until("the server is gone", || TcpStream::connect(address).is_err());
    until("its files are gone", || !std::fs::exists(directory).expect("its parent"));
}
