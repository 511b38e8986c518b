//! Calls without a key whose client hangs up, while a task has the handle.

use std::sync::Mutex;

use bytes::Bytes;
use driver_suite::assert_clean;
use futures_util::future::join_all;
use tokio::sync::{Semaphore, mpsc};

use crate::harness::open_transactions;
use crate::prelude::*;

/// Counts the connections that a pool opens.
const COUNT: &str = "SELECT nextval('public.connections')";

async fn database() -> Database {
    let database = Database::new().await;
    let make = "CREATE SEQUENCE public.connections; GRANT ALL ON SEQUENCE public.connections TO PUBLIC;
                CREATE TABLE public.labels (label text); GRANT ALL ON public.labels TO PUBLIC";
    database.owner().await.batch_execute(make).await.expect("the sequence");
    database
}

async fn opened(owner: &Client) -> i64 {
    owner.query_one("SELECT last_value FROM public.connections", &[]).await.expect("the count").get(0)
}

fn store(pool: &deadpool_postgres::Pool, timeout: Duration) -> PostgresStore {
    PostgresStore::new(pool.clone(), organization::resource_types()).timeout(timeout)
}

/// The future that a task spawned by the handler holds beside the handle, without polling it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Copy,
    Nothing,
    Statement,
}

#[tokio::test]
async fn end_the_transaction_of_a_handle_that_lives_on() {
    let ends = async |held| {
        let database = database().await;
        let owner = database.owner().await;
        let pool = database.pool_with(1, COUNT);
        let (kept, gate) = (Arc::new(Mutex::new(None::<Transaction>)), Arc::new(Semaphore::new(0)));
        let (keep, opens) = (Arc::clone(&kept), Arc::clone(&gate));
        let (ended, mut ends) = mpsc::channel(1);
        drop(pool.get().await.expect("a connection"));
        let impatient = store(&pool, Duration::from_secs(5));
        let service = Service::built(
            &database,
            impatient,
            |procedure| procedure,
            |builder| builder,
            move |call: Call| {
                let (keep, gate, ended) = (Arc::clone(&keep), Arc::clone(&opens), ended.clone());
                async move {
                    let project = call.insert().await?;
                    let transaction = call.transaction();
                    tokio::spawn(async move {
                        let copy = transaction.copy_in::<_, Bytes>("COPY public.labels FROM STDIN");
                        let copy = if held == Held::Copy { Some(copy.await.expect("a copy")) } else { None };
                        let mut statement = Box::pin(transaction.batch_execute("SELECT 1"));
                        if held == Held::Statement {
                            assert!((&mut statement).now_or_never().is_none(), "it has an answer to wait for");
                        }
                        *keep.lock().expect("no panic") = Some(transaction.clone());
                        gate.acquire().await.expect("it is not closed").forget();
                        let end = statement.await.map_err(|dead| dead.kind());
                        drop(copy);
                        ended.send(end).await.expect("it is waited for");
                    });
                    std::future::pending::<()>().await;
                    Ok(project)
                }
            },
        )
        .await;
        let call = service.with_key(None).spawn("shop");
        until("the handle is kept", async || kept.lock().expect("no panic").is_some()).await;
        assert_eq!(open_transactions(&owner).await, 1);
        call.abort();
        all_have_ended(&owner).await;
        let transaction = kept.lock().expect("no panic").take().expect("the handle");
        let dead = transaction.query("SELECT 1", &[]).await.expect_err("the call has ended");
        assert_eq!(dead.kind(), TransactionErrorKind::Ended);
        gate.add_permits(1);
        let end = ends.recv().await.expect("the statement ends");
        // One whose answer was there may have it.
        assert!(
            end == Err(TransactionErrorKind::Ended) || held == Held::Statement && end == Ok(()),
            "{held:?}: {end:?}"
        );
        drop(transaction);
        drop(pool.get().await.expect("a connection"));
        assert_clean::<PostgresStack>(&pool).await;
        // An unpolled statement is cancelled. The cancel request may arrive late, so its connection has no other user.
        let connections = if held == Held::Statement { 2 } else { 1 };
        assert_eq!((opened(&owner).await, rows(&owner).await), (connections, [0, 0, 0]), "{held:?}");
    };
    join_all([Held::Copy, Held::Nothing, Held::Statement].map(ends)).await;
}
