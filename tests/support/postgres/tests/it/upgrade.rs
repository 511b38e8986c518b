//! Servers that are upgraded.

use std::path::Path;

use scratch_postgres::{Server, Source, skip, upgrade_binaries};

use crate::traces::{Traces, ask};

#[tokio::test]
async fn keeps_its_data_and_is_gone_after_stop() {
    let Some((old, new)) = upgrade_binaries() else {
        return skip("pg-upgrade", "IDEMPOTENCY_TEST_PG_UPGRADE is not set");
    };
    let mut server = Server::start(&[Source::Binaries(old)]).await.expect("the old server");
    let url = server.url().to_owned();
    let before: u32 = ask(&url, "SHOW server_version_num").await.parse().expect("a number");
    // A large object is data that a SELECT makes.
    assert_eq!(ask(&url, "SELECT lo_from_bytea(7, 'kept')::text").await, "7");

    server.upgrade(&new).await.expect("an upgrade");

    let after: u32 = ask(&url, "SHOW server_version_num").await.parse().expect("a number");
    assert!(after / 10_000 > before / 10_000, "from {before} to {after}");
    assert!(server.describe().contains(&format!("PostgreSQL {}.", after / 10_000)), "{}", server.describe());
    assert_eq!(ask(&url, "SELECT convert_from(lo_get(7), 'UTF8')").await, "kept");
    let traces = Traces::of(&url).await;
    server.stop().await;
    assert!(!traces.are_there(), "{traces:?}");
}

#[tokio::test]
async fn says_why_it_cannot_be_upgraded() {
    let Ok(mut server) = Server::start(&[Source::Installed]).await else {
        return skip("installed-postgres", "no server binaries");
    };
    let traces = Traces::of(server.url()).await;

    let error = server.upgrade(Path::new("/nowhere/bin")).await.expect_err("there are no programs");

    assert!(error.to_string().contains("/nowhere/bin/initdb"), "{error}");
    server.stop().await;
    assert!(!traces.are_there(), "{traces:?}");
}
