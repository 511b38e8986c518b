//! Databases for tests, on the server that they share. There are several tests, because each has its own runtime. They
//! skip nothing: without a server, the tests of this workspace cannot run at all.

use std::collections::HashSet;

use scratch_postgres::{database, test_server};

#[tokio::test]
async fn starts_empty() {
    let database = database(None).await;
    let client = database.connect().await;
    let name: String = client.query_one("SELECT current_database()::text", &[]).await.expect("a row").get(0);
    assert_eq!(name, database.name());
    client.batch_execute("CREATE TABLE seen (id int)").await.expect("an own table");
}

#[tokio::test]
async fn copies_a_template_while_others_do() {
    let template = database(None).await;
    let client = template.connect().await;
    client.batch_execute("CREATE TABLE seen (id int); INSERT INTO seen VALUES (7)").await.expect("a table");
    drop(client);

    let copies: Vec<_> = (0..4)
        .map(|_| {
            let name = template.name().to_owned();
            tokio::spawn(async move { database(Some(&name)).await })
        })
        .collect();

    let mut names = HashSet::new();
    for copy in copies {
        let copy = copy.await.expect("a copy");
        let id: i32 = copy.connect().await.query_one("SELECT id FROM seen", &[]).await.expect("a row").get(0);
        assert_eq!(id, 7);
        names.insert(copy.name().to_owned());
    }
    assert_eq!(names.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn works_on_a_runtime_with_threads() {
    let database = database(None).await;
    let one: i32 = database.connect().await.query_one("SELECT 1", &[]).await.expect("a row").get(0);
    assert_eq!(one, 1);
}

#[test]
fn outlives_the_runtime_of_the_first_test() {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let database = database(None).await;
            database.connect().await.batch_execute("SELECT 1").await.expect("an answer");
            test_server().await.url()
        })
    };
    assert_eq!(run(), run());
}
