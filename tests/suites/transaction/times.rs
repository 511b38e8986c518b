//! The log line about transactions that idle.

use futures_util::future::join_all;
use tonic_idempotency_tests::Lines;
use tracing::level_filters::LevelFilter;

use crate::prelude::*;

const SAID: &str = "the transactions of this procedure idle for longer than they work";

/// The time that a handler works without its transaction.
const ELSEWHERE: Duration = Duration::from_millis(200);

#[tokio::test]
async fn a_procedure_whose_transactions_idle_for_longer_than_they_work_is_named_once() {
    let database = Database::new().await;
    let store = patient::<PostgresStack>(database.pool(16));
    let service = Service::built(
        &database,
        store,
        |procedure| procedure,
        |builder| builder,
        |call: Call| async move {
            if call.name == "slow statement" {
                call.select("SELECT pg_sleep(0.3)::text").await?;
            } else {
                tokio::time::sleep(ELSEWHERE).await;
            }
            call.insert().await
        },
    )
    .await;
    let (lines, _guard) = Lines::collect(LevelFilter::WARN);
    let calls = async |name: &str, number: usize, key: bool| {
        let services: Vec<_> = (0..number).map(|_| service.with_new_key()).collect();
        let services = services.iter().map(|service| if key { service.clone() } else { service.with_key(None) });
        let calls = services.map(|service| async move { service.create(name).await });
        join_all(calls).await.into_iter().for_each(|call| drop(call.expect("a call")));
    };
    calls("slow statement", 4, true).await;
    calls("shop", 4, true).await;
    assert_eq!(lines.count(SAID), 0, "a few calls say nothing");
    calls("shop", 5, false).await;
    let said = lines.take();
    assert!(said.contains(SAID) && said.contains(CREATE_PROJECT), "{said}");
    assert!(said.contains(" idle=") && said.contains(" working="), "{said}");
    calls("shop", 5, true).await;
    assert_eq!(lines.count(SAID), 0, "it is said once");
}
