//! Retries of calls whose records an operator has evicted.

use crate::prelude::*;

/// A server, and one beside it that has nothing in memory.
async fn shops(database: &Database) -> [Shop; 2] {
    let shop = async || {
        let store = postgres(database.pool(2));
        Shop::with(|builder| {
            builder.store(store).adjust_procedures(|procedure| procedure.final_errors([Code::FailedPrecondition]))
        })
        .await
    };
    let first = shop().await;
    let second = Shop { user: first.user, key: first.key, ..shop().await };
    [first, second]
}

/// Evicts the only record.
async fn evict(database: &Database, run_again: bool) -> String {
    let evict = "SELECT e.outcome FROM tenant.idempotency_keys k,
                 tenant.idempotency_evict(k.idempotency_key::text, k.user_id::text, k.token, p_run_again => $1) e";
    database.owner().await.query_one(evict, &[&run_again]).await.expect("the record").get(0)
}

#[tokio::test]
async fn are_refused_as_those_without_a_stored_response() {
    let database = Database::new().await;
    let [first, second] = shops(&database).await;
    first.create("a").await.expect("a response");
    assert_eq!(evict(&database, false).await, "evicted");
    assert_refused(second.create("a").await, Code::FailedPrecondition, Reason::NotStored);
    assert_refused(second.create("b").await, Code::InvalidArgument, Reason::KeyReused);
    assert_eq!(second.handler.started(), 0);
}

#[tokio::test]
async fn get_the_error_with_its_code_and_without_its_content() {
    let database = Database::new().await;
    let [first, second] = shops(&database).await;
    first.create("fail for good").await.expect_err("it fails");
    assert_eq!(evict(&database, false).await, "evicted");
    for _ in 0..2 {
        let status = second.create("fail for good").await.expect_err("a replay");
        assert_eq!(status.code(), shop::shipped().code());
        assert_eq!(status.message(), "the content of this error was erased by an operator");
        assert_eq!((status.details(), Reason::of(&status)), (&[][..], None));
        let metadata = status.metadata();
        assert_eq!(metadata.get("idempotent-replayed").map(|value| value.as_bytes()), Some(&b"true"[..]));
        assert!(metadata.get("shop-region").is_none() && metadata.get_bin("shop-trace-bin").is_none(), "{status:?}");
    }
    assert_eq!(second.handler.started(), 0);
}

#[tokio::test]
async fn run_the_handler_if_the_record_was_deleted() {
    let database = Database::new().await;
    let [first, second] = shops(&database).await;
    first.create("a").await.expect("a response");
    assert_eq!(evict(&database, true).await, "too_early");
    let age = "UPDATE tenant.idempotency_keys SET completed = completed - interval '1 minute'";
    database.owner().await.batch_execute(age).await.expect("time");
    assert_eq!(evict(&database, true).await, "deleted");
    second.create("a").await.expect("a response");
    assert_eq!(second.handler.started(), 1);
}
