//! The page's answer to requests for other hosts: those of another site's page whose name points at this machine.

use super::{get::get, process::Process};

#[tokio::test]
async fn the_users_are_sent_to_this_machine_and_named_hosts_alone() {
    let database = scratch_postgres::database(None).await;
    let flags = ["--listen", "127.0.0.1:0", "--host", "shop.test"];
    let mut process = Process::spawn(Some(database.url()), &flags);
    let ready = process.ready().await;
    let port = ready.address.port();
    for host in ["localhost", "127.0.0.1", "[::1]", "shop.test"] {
        let answer = get(ready.address, &format!("{host}:{port}"), "/playground/users.json").await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(&ready.tokens.alice), "{host}: {answer}");
    }
    for path in ["/", "/playground/users.json"] {
        let answer = get(ready.address, &format!("evil.test:{port}"), path).await;
        assert!(answer.starts_with("HTTP/1.1 421") && !answer.contains(&ready.tokens.alice), "{path}: {answer}");
    }
}
