//! Servers from the binaries on this machine.

use scratch_postgres::{Server, Source, skip};

use crate::{
    owner::{ENDINGS, Ending, Owner, Scene},
    traces::{Traces, ask, output, runs, wait_until},
};
use tokio_postgres::NoTls;

/// A server; `None` if there are no binaries.
async fn server() -> Option<Server> {
    Server::start(&[Source::Installed]).await.map_err(|error| skip("installed-postgres", error)).ok()
}

/// A server that keeps committed data when it is killed; `None` if there are no binaries.
async fn durable_server() -> Option<Server> {
    Server::start_durable(&[Source::Installed]).await.map_err(|error| skip("installed-postgres", error)).ok()
}

#[tokio::test]
async fn answers_and_is_gone_after_stop() {
    let Some(server) = server().await else { return };
    assert_eq!(ask(server.url(), "SELECT 'äö' || current_user").await, "äöpostgres");
    assert_eq!(ask(server.url(), "SHOW server_encoding").await, "UTF8");
    assert_eq!(ask(server.url(), "SHOW max_connections").await, "1000");
    assert!(matches!(server.source(), Source::Installed));
    assert!(server.describe().starts_with("PostgreSQL 1"), "{}", server.describe());
    assert!(server.describe().ends_with("removed at exit"), "{}", server.describe());
    let traces = Traces::of(server.url()).await;
    assert!(traces.are_there());

    server.stop().await;

    assert!(!traces.are_there(), "{traces:?}");
}

#[tokio::test]
async fn stops_while_clients_are_connected() {
    let Some(server) = server().await else { return };
    let traces = Traces::of(server.url()).await;
    let (client, connection) =
        tokio_postgres::connect(server.url(), tokio_postgres::NoTls).await.expect("the server answers");
    tokio::spawn(connection);
    client.batch_execute("BEGIN").await.expect("a transaction that stays open");

    server.stop().await;

    assert!(!traces.are_there(), "{traces:?}");
}

#[tokio::test]
async fn is_gone_after_a_drop() {
    let Some(server) = server().await else { return };
    let traces = Traces::of(server.url()).await;

    drop(server);

    assert!(!traces.are_there(), "{traces:?}");
}

#[tokio::test]
async fn is_gone_after_a_panic() {
    let Some(server) = server().await else { return };
    let traces = Traces::of(server.url()).await;

    let panicked = tokio::spawn(async move {
        let _server = server;
        panic!("on purpose");
    });

    assert!(panicked.await.is_err());
    assert!(!traces.are_there(), "{traces:?}");
}

#[tokio::test]
async fn keeps_what_was_committed_when_it_is_killed() {
    let Some(mut server) = durable_server().await else { return };
    let url = server.url().to_owned();
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.expect("the server answers");
    let connection = tokio::spawn(connection);
    client.batch_execute("CREATE TABLE seen (round integer)").await.expect("a table");

    for round in 1..=3 {
        let (writer, of_writer) = tokio_postgres::connect(&url, NoTls).await.expect("the server answers");
        tokio::spawn(of_writer);
        writer.execute("INSERT INTO seen VALUES ($1)", &[&round]).await.expect("a row");
        let processes = Traces::processes(&url).await;
        assert!(processes.len() > 3, "{processes:?}");

        server.kill().await.expect("it runs");

        assert!(!processes.into_iter().any(runs));
        assert!(tokio_postgres::connect(&url, NoTls).await.is_err());
        server.restart().await.expect("it comes up");
        assert_eq!(ask(&url, "SELECT max(round)::text FROM seen").await, round.to_string());
    }
    assert!(connection.await.expect("no panic").is_err(), "a connection outlived its server");
}

#[tokio::test]
async fn is_gone_after_stop_while_it_is_killed() {
    let Some(mut server) = durable_server().await else { return };
    let traces = Traces::of(server.url()).await;
    let block = r"SELECT substring(split_part(pg_read_file('postmaster.pid'), E'\n', 7) FROM '(\d+)\s*$')";
    let block = ask(server.url(), block).await;
    let is_there = || output("ipcs", &["-m"]).split_whitespace().any(|word| word == block);
    assert!(is_there(), "no shared memory {block}");
    server.kill().await.expect("it runs");
    assert!(traces.directory.exists());

    server.stop().await;

    assert!(!traces.are_there(), "{traces:?}");
    assert!(!is_there(), "shared memory {block} is left");
}

#[tokio::test]
async fn a_second_kill_is_refused_and_a_second_restart_changes_nothing() {
    let Some(mut server) = durable_server().await else { return };
    server.kill().await.expect("it runs");
    server.kill().await.expect_err("it does not run");
    server.restart().await.expect("it comes up");
    server.restart().await.expect("it is up");
    assert_eq!(ask(server.url(), "SELECT 'here'").await, "here");
}

#[tokio::test]
async fn does_not_let_others_in() {
    let Some(server) = server().await else { return };
    let mut config: tokio_postgres::Config = server.url().parse().expect("a URL");
    config.password("guessed");

    let outcome = config.connect(tokio_postgres::NoTls).await;

    let error = outcome.err().expect("no way in");
    assert_eq!(error.code(), Some(&tokio_postgres::error::SqlState::INVALID_PASSWORD));
}

#[tokio::test]
async fn two_run_side_by_side() {
    let Some(first) = server().await else { return };
    let second = server().await.expect("a second one as well");
    assert_ne!(first.url(), second.url());

    first.stop().await;

    assert_eq!(ask(second.url(), "SELECT 'here'").await, "here");
}

#[tokio::test]
async fn is_gone_however_its_owner_ends() {
    if server().await.is_none() {
        return;
    }
    for ending in ENDINGS {
        let owner = Owner::start("installed", None);
        let traces = Traces::of(&owner.url).await;

        owner.end(ending);

        wait_until(&format!("{traces:?} are gone after {ending:?}"), || !traces.are_there());
    }
}

#[tokio::test]
async fn is_gone_when_its_owner_is_killed_while_it_starts() {
    if server().await.is_none() {
        return;
    }
    // The files appear in the server's directory in this order.
    for stage in ["", "data/PG_VERSION", "data/postmaster.pid"] {
        let scene = Scene::new("installed");
        let child = scene.start();
        wait_until(&format!("there is {stage:?}"), || scene.has(stage));

        scene.kill(child);

        wait_until(&format!("nothing is left after {stage:?}"), || {
            !scene.has("") && !output("ps", &["-A", "-o", "args="]).contains(scene.mark())
        });
    }
}

#[tokio::test]
async fn works_for_root_and_for_others() {
    let Some(server) = server().await else { return };
    let own: u32 = output("id", &["-u"]).trim().parse().expect("a user id");
    let traces = Traces::of(server.url()).await;
    if own != 0 {
        assert_eq!(traces.user, own);
        return skip("root", "this process does not run as root, so only its own user was tested");
    }
    assert_ne!(traces.user, 0);

    const OTHER: u32 = 65534;
    let owner = Owner::start("installed", Some(OTHER));
    let traces = Traces::of(&owner.url).await;
    assert_eq!(traces.user, OTHER);

    owner.end(Ending::Killed);

    wait_until(&format!("{traces:?} are gone"), || !traces.are_there());
}
