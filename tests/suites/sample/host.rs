//! The page's answer to requests for other hosts: those of another site's page whose name points at this machine.

use scratch_postgres::TestDatabase;

use super::{
    get::get,
    process::{Process, Ready},
};

struct Sample {
    _process: Process,
    ready: Ready,
    /// The last field, so that it is dropped after the process that uses it.
    _database: TestDatabase,
}

impl Sample {
    async fn start(flags: &[&str]) -> Self {
        let database = scratch_postgres::database(None).await;
        let mut process = Process::spawn(Some(database.url()), &[&["--listen", "127.0.0.1:0"], flags].concat());
        let ready = process.ready().await;
        Self { _process: process, ready, _database: database }
    }
}

#[tokio::test]
async fn the_users_are_sent_to_this_machine_and_named_hosts_alone() {
    let sample = Sample::start(&["--host", "shop.test"]).await;
    let port = sample.ready.address.port();
    for host in ["localhost", "127.0.0.1", "[::1]", "shop.test"] {
        let answer = get(sample.ready.address, &format!("{host}:{port}"), "/playground/users.json").await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(&sample.ready.tokens.alice), "{host}: {answer}");
    }
    for path in ["/", "/playground/users.json"] {
        let answer = get(sample.ready.address, &format!("evil.test:{port}"), path).await;
        assert!(answer.starts_with("HTTP/1.1 421") && !answer.contains(&sample.ready.tokens.alice), "{path}: {answer}");
    }
}
