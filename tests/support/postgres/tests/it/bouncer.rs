//! PgBouncer in front of the server that the tests share.

use std::{collections::HashSet, path::PathBuf};

use scratch_postgres::{PgBouncer, TestDatabase, database, skip};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::{
    owner::{ENDINGS, Owner, Scene},
    traces::{ask, output, wait_until},
};

/// A PgBouncer in front of a database; `None` if it cannot run here.
async fn bouncer() -> Option<(TestDatabase, PgBouncer)> {
    if let Some(why) = PgBouncer::missing() {
        skip("pgbouncer", why);
        return None;
    }
    let database = database(None).await;
    let bouncer = PgBouncer::start(&database.url().parse().expect("an address")).await.expect("it starts");
    Some((database, bouncer))
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("it answers");
    tokio::spawn(connection);
    client
}

/// The server connection that a client has at this moment.
async fn backend(client: &Client) -> i32 {
    client.query_typed_one("SELECT pg_backend_pid()", &[]).await.expect("an answer").get(0)
}

/// The files and processes of a running PgBouncer.
#[derive(Debug)]
struct Traces {
    directory: PathBuf,
}

impl Traces {
    /// Asks the PgBouncer at `url`, on its console.
    async fn of(url: &str) -> Self {
        let (server, _database) = url.rsplit_once('/').expect("a database in the address");
        let console = connect(&format!("{server}/pgbouncer")).await;
        let settings = console.simple_query("SHOW CONFIG").await.expect("an answer");
        let file = settings.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) if row.get(0) == Some("conffile") => row.get(1),
            _ => None,
        });
        let file = PathBuf::from(file.expect("the name of its configuration"));
        Self { directory: file.parent().expect("a directory").to_owned() }
    }

    fn are_there(&self) -> bool {
        self.directory.exists() || !self.users().is_empty()
    }

    /// The user ids of its processes and of those that supervise it.
    fn users(&self) -> Vec<u32> {
        let name = self.directory.file_name().and_then(|name| name.to_str()).expect("a name");
        let processes = output("ps", &["-A", "-ww", "-o", "uid=", "-o", "args="]);
        let of_it = processes.lines().filter(|line| line.contains(name));
        of_it
            .map(|line| line.split_whitespace().next().and_then(|user| user.parse().ok()).expect("a user id"))
            .collect()
    }
}

#[tokio::test]
async fn answers_and_is_gone_after_a_drop() {
    let Some((database, bouncer)) = bouncer().await else { return };
    assert_eq!(ask(bouncer.url(), "SELECT 'äö' || current_database()").await, format!("äö{}", database.name()));
    assert_ne!(bouncer.url(), database.url());
    let traces = Traces::of(bouncer.url()).await;
    assert!(traces.directory.exists());
    let users = traces.users();
    assert!(!users.is_empty() && !users.contains(&0), "{users:?}");

    drop(bouncer);

    assert!(!traces.are_there(), "{traces:?}");
}

#[tokio::test]
async fn clients_share_a_server_connection_between_transactions() {
    let Some((_database, bouncer)) = bouncer().await else { return };
    let (first, second) = (connect(bouncer.url()).await, connect(bouncer.url()).await);
    let shared = backend(&first).await;
    for _ in 0..3 {
        assert_eq!(backend(&second).await, shared);
        assert_eq!(backend(&first).await, shared);
    }

    first.batch_execute("BEGIN").await.expect("a transaction");
    let held = backend(&first).await;
    assert_ne!(backend(&second).await, held);
    first.batch_execute("COMMIT").await.expect("its end");
}

#[tokio::test]
async fn many_clients_have_few_server_connections() {
    let Some((_database, bouncer)) = bouncer().await else { return };
    let mut clients = Vec::new();
    for _ in 0..PgBouncer::SERVER_CONNECTIONS {
        let client = connect(bouncer.url()).await;
        client.batch_execute("BEGIN").await.expect("a transaction");
        clients.push(client);
    }
    let mut backends = HashSet::new();
    for client in &clients {
        backends.insert(backend(client).await);
    }
    assert_eq!(backends.len(), PgBouncer::SERVER_CONNECTIONS);

    // No other client gets a connection until one of these ends its transaction.
    let waiting = connect(bouncer.url()).await;
    let waiting = tokio::spawn(async move { backend(&waiting).await });
    let ended = backend(&clients[2]).await;
    assert!(!waiting.is_finished());
    clients[2].batch_execute("COMMIT").await.expect("its end");
    assert_eq!(waiting.await.expect("no panic"), ended);
}

/// The reason why a user must not be set for a session.
#[tokio::test]
async fn a_session_setting_carries_over_to_the_next_client() {
    let Some((_database, bouncer)) = bouncer().await else { return };
    let (first, second) = (connect(bouncer.url()).await, connect(bouncer.url()).await);

    first.batch_execute("SET app.mine = 'first'").await.expect("a setting");

    let seen: String =
        second.query_typed_one("SELECT current_setting('app.mine')", &[]).await.expect("an answer").get(0);
    assert_eq!(seen, "first");
}

#[tokio::test]
async fn does_not_let_others_in() {
    let Some((_database, bouncer)) = bouncer().await else { return };
    let mut config: tokio_postgres::Config = bouncer.url().parse().expect("a URL");
    if config.get_password().is_none() {
        return skip("password", "the server needs no password");
    }
    config.password("guessed");

    let outcome = config.connect(NoTls).await;

    let error = outcome.err().expect("no way in");
    let error = error.as_db_error().expect("an answer");
    assert!(error.message().contains("authentication failed"), "{error}");
    let password = bouncer.url().split([':', '@']).nth(2).expect("a password");
    assert!(!format!("{bouncer:?}").contains(password), "{bouncer:?}");
}

#[tokio::test]
async fn is_gone_however_its_owner_ends() {
    if bouncer().await.is_none() {
        return;
    }
    for ending in ENDINGS {
        let owner = Owner::start("pgbouncer", None);
        let traces = Traces::of(&owner.url).await;

        owner.end(ending);

        wait_until(&format!("{traces:?} are gone after {ending:?}"), || !traces.are_there());
    }
}

#[tokio::test]
async fn is_gone_when_its_owner_is_killed_while_it_starts() {
    if bouncer().await.is_none() {
        return;
    }
    // The files appear in its directory in this order.
    for stage in ["users.txt", "pgbouncer.ini"] {
        let scene = Scene::new("pgbouncer");
        let child = scene.start();
        wait_until(&format!("there is {stage}"), || scene.has(stage));

        scene.kill(child);

        wait_until(&format!("nothing is left after {stage}"), || {
            !scene.has("") && !output("ps", &["-A", "-o", "args="]).contains(scene.mark())
        });
    }
}
