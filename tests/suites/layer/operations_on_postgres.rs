//! The service that reports the outcomes of calls to their callers, on PostgreSQL: transactions and connections.

use deadpool_postgres::Pool;
use tonic_idempotency::proto::v1::{State, Until};

use crate::operations::Operations;
use crate::prelude::*;

fn store(database: &Database, size: usize) -> (PostgresStore, Pool) {
    let pool = database.pool(size);
    (postgres(pool.clone()), pool)
}

async fn transactional_on(database: &Database) -> Shop {
    // A role that logs in itself may see since when its own transactions are open.
    let pool = database.pool_of_login(4).await;
    let store = postgres(pool);
    Shop::with(|builder| {
        builder.store(store).adjust_procedures(|it| it.mode(Mode::Transactional).effect(EffectPolicy::Anywhere))
    })
    .await
}

#[tokio::test]
async fn tell_of_a_call_that_runs_in_a_transaction_here_and_elsewhere() {
    let database = Database::new().await;
    let shop = transactional_on(&database).await;
    let elsewhere = Shop { user: shop.user, key: shop.key, ..transactional_on(&database).await };
    let (here, there) = (Operations::of(&shop).await, Operations::of(&elsewhere).await);
    let running = shop.with_key(shop.key);
    let call = tokio::spawn(async move { running.touch("hold").await });
    until("the handler runs", async || shop.handler.started() == 1).await;
    let found = here.get().await.expect("an answer");
    assert_eq!((found.state(), found.procedure.as_str()), (State::Running, "/shop.v1.Shop/Touch"));
    let found = there.get().await.expect("an answer");
    // Its procedure is recorded with its outcome.
    assert_eq!((found.state(), found.procedure.as_str()), (State::Running, ""));
    assert!(found.create_time.is_some(), "{found:?}");
    assert_eq!(there.by(Uuid::new_v4()).state().await, State::Absent);

    let waiting = [here.spawn_wait(Until::CallEnded), there.spawn_wait(Until::CallEnded)];
    shop.handler.open(1);
    call.await.expect("no panic").expect("a response");
    for waiting in waiting {
        let found = waiting.await.expect("no panic").expect("an answer");
        assert_eq!((found.state(), found.procedure.as_str()), (State::Completed, "/shop.v1.Shop/Touch"));
    }
}

#[tokio::test]
async fn hold_no_connection_while_they_wait() {
    let database = Database::new().await;
    let (store, pool) = store(&database, 2);
    let shop = Shop::with(|builder| builder.store(store)).await;
    let call = shop.run_create("hold").await;
    let operations = Operations::with(&shop, |builder| builder.max_pause(Duration::from_secs(3600))).await;
    let waiting: Vec<_> = (0..16).map(|_| operations.spawn_wait(Until::CallEnded)).collect();
    until("they wait without a connection", async || {
        // A later question finds one: all wait, and none has one.
        operations.state().await == State::Running && pool.status().available == pool.status().size
    })
    .await;
    shop.handler.open(1);
    for waiting in waiting {
        assert_eq!(waiting.await.expect("no panic").expect("an answer").state(), State::Completed);
    }
    call.await.expect("no panic").expect("a response");
}
