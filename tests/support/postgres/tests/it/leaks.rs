//! However an owner ends, nothing is left of what it started.

use scratch_postgres::{Pair, PgBouncer, Server, Source, TestDatabase, skip};
use tokio_postgres::{NoTls, SimpleQueryMessage};

use crate::{
    owner::{ENDINGS, Owner, Scene},
    traces::{Traces, ask, connect, output, wait_until},
};

/// A server that keeps committed data when it is killed; `None` if there are no binaries.
async fn server() -> Option<Server> {
    Server::start_durable(&[Source::Installed]).await.map_err(|error| skip("installed-postgres", error)).ok()
}

/// The servers that the program can start on this machine.
async fn started() -> Vec<&'static str> {
    let Some(_server) = server().await else { return Vec::new() };
    match PgBouncer::missing() {
        Some(why) => {
            skip("pgbouncer", why);
            vec!["installed"]
        }
        None => vec!["installed", "pgbouncer"],
    }
}

/// The traces of a server, or of a PgBouncer, whose console has the name of its file.
async fn traces(what: &str, url: &str) -> Traces {
    if what == "installed" {
        return Traces::above(&ask(url, "SHOW data_directory").await);
    }
    let (server, _database) = url.rsplit_once('/').expect("a database in the address");
    let console = connect(&format!("{server}/pgbouncer")).await;
    let settings = console.simple_query("SHOW CONFIG").await.expect("an answer");
    let file = settings.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) if row.get(0) == Some("conffile") => row.get(1),
        _ => None,
    });
    Traces::above(file.expect("the name of its configuration"))
}

#[tokio::test]
async fn nothing_is_left_however_the_owner_ends() {
    for what in started().await {
        for ending in ENDINGS {
            let owner = Owner::start(what);
            let traces = traces(what, &owner.url).await;
            assert!(traces.are_there(), "{what}");

            owner.end(ending);

            wait_until(&format!("{traces:?} of {what} are gone after {ending:?}"), || !traces.are_there());
        }
    }
}

#[tokio::test]
async fn nothing_is_left_when_the_owner_is_killed_while_it_starts() {
    let started = started().await;
    // The files appear in the directory in this order.
    for (what, stage) in [
        ("installed", ""),
        ("installed", "data/PG_VERSION"),
        ("installed", "data/postmaster.pid"),
        ("pgbouncer", "users.txt"),
        ("pgbouncer", "pgbouncer.ini"),
    ] {
        if !started.contains(&what) {
            continue;
        }
        let scene = Scene::new(what);
        let child = scene.start();
        wait_until(&format!("{what} has {stage:?}"), || scene.has(stage));

        scene.kill(child);

        wait_until(&format!("nothing is left of {what} after {stage:?}"), || {
            !scene.has("") && !output("ps", &["-A", "-o", "args="]).contains(scene.mark())
        });
    }
}

#[tokio::test]
async fn nothing_is_left_once_the_value_is_gone() {
    for way in ["stop", "a drop", "a panic", "stop after a kill"] {
        let Some(mut server) = server().await else { return };
        let traces = traces("installed", server.url()).await;
        let client = connect(server.url()).await;
        client.batch_execute("BEGIN").await.expect("a transaction that stays open");
        let block = r"SELECT substring(split_part(pg_read_file('postmaster.pid'), E'\n', 7) FROM '(\d+)\s*$')";
        let block = ask(server.url(), block).await;
        let has_memory = || output("ipcs", &["-m"]).split_whitespace().any(|word| word == block);
        assert!(traces.are_there() && has_memory(), "{way}");

        match way {
            "stop" => server.stop().await,
            "a drop" => drop(server),
            "a panic" => {
                let panicked = tokio::spawn(async move {
                    let _server = server;
                    panic!("on purpose");
                });
                assert!(panicked.await.is_err());
            }
            _ => {
                server.kill().await.expect("it runs");
                assert!(tokio_postgres::connect(server.url(), NoTls).await.is_err());
                server.stop().await;
            }
        }

        assert!(!traces.are_there(), "{traces:?} after {way}");
        assert!(!has_memory(), "shared memory {block} is left after {way}");
    }
}

#[tokio::test]
async fn nothing_is_left_of_a_pair_after_a_drop() {
    let pair = match Pair::start().await {
        Ok(pair) => pair,
        Err(error) => return skip("installed-postgres", error),
    };
    let traces = Traces::above(&ask(&pair.primary(), "SHOW data_directory").await);
    assert!(traces.are_there());

    drop(pair);

    assert!(!traces.are_there(), "{traces:?}");
}

#[tokio::test]
async fn a_given_server_stays_without_its_databases() {
    let Some(private) = server().await else { return };
    let given = Server::start(&[Source::Url(private.url().to_owned())]).await.expect("it answers");
    let database = TestDatabase::create(&given, None).await.expect("a database");
    let _connected = database.connect().await;
    let count = format!("SELECT count(*)::text FROM pg_database WHERE datname = '{}'", database.name());
    assert_eq!(ask(private.url(), &count).await, "1");

    drop(database);
    given.stop().await;

    assert_eq!(ask(private.url(), &count).await, "0");
}
