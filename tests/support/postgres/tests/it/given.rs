//! Servers that were running already.

use scratch_postgres::{Server, Source, TestDatabase, skip};

use crate::traces::ask;

#[tokio::test]
async fn is_used_as_given_and_left_running() {
    let Ok(private) = Server::start(&[Source::Installed]).await else {
        return skip("installed-postgres", "no server to give");
    };
    let given = Server::start(&[Source::Url(private.url().to_owned())]).await.expect("it answers");
    assert_eq!(given.url(), private.url());
    assert!(given.describe().ends_with("left as it is"), "{}", given.describe());
    let password = private.url().split([':', '@']).nth(2).expect("a password");
    assert!(!format!("{given:?}").contains(password), "{given:?}");

    given.stop().await;

    assert_eq!(ask(private.url(), "SELECT 'here'").await, "here");
}

#[tokio::test]
async fn cannot_be_killed() {
    let Ok(private) = Server::start(&[Source::Installed]).await else {
        return skip("installed-postgres", "no server to give");
    };
    let mut given = Server::start(&[Source::Url(private.url().to_owned())]).await.expect("it answers");

    given.kill().await.expect_err("it is not ours");

    assert_eq!(ask(given.url(), "SELECT 'here'").await, "here");
}

#[tokio::test]
async fn its_databases_are_dropped_with_their_value() {
    let Ok(private) = Server::start(&[Source::Installed]).await else {
        return skip("installed-postgres", "no server to give");
    };
    let given = Server::start(&[Source::Url(private.url().to_owned())]).await.expect("it answers");
    let database = TestDatabase::create(&given, None).await.expect("a database");
    let _connected = database.connect().await;
    let count = format!("SELECT count(*)::text FROM pg_database WHERE datname = '{}'", database.name());
    assert_eq!(ask(private.url(), &count).await, "1");

    drop(database);

    assert_eq!(ask(private.url(), &count).await, "0");
}

#[tokio::test]
async fn an_unreachable_one_is_an_error_without_its_password() {
    let url = "postgres://somebody:secret@127.0.0.1:1/app".to_owned();

    let error = Server::start(&[Source::Url(url)]).await.expect_err("no server listens there");

    let text = error.to_string();
    assert!(text.contains("127.0.0.1:1/app cannot be reached"), "{text}");
    assert!(text.contains("refused"), "{text}");
    assert!(!text.contains("secret"), "{text}");
}
