//! The transaction in the hands of a handler.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tonic::{Code, Status};
use tonic_idempotency::{
    policy::{Mode, ProcedureBuilder},
    store::TransactionErrorKind,
};
use tonic_idempotency_tests::Database;
use uuid::Uuid;

use crate::{Call, Service, Stack, assert_clean, names, pool, rows, status};

/// The error of a statement through a handle whose call has ended.
pub(crate) async fn late<S: Stack>(transaction: &S::Transaction) -> S::Error {
    match S::connection(transaction).await {
        Ok(mut connection) => S::insert(&mut connection, "late").await.expect_err("the call has ended"),
        Err(error) => error,
    }
}

pub async fn can_be_cloned_into_helpers<S: Stack>() {
    let database = Database::new().await;
    let service = Service::new(&database, pool::<S>(&database, 2), |call: Call<S>| async move {
        let helpers: Vec<_> = (0..8)
            .map(|number| {
                let transaction = call.transaction();
                tokio::spawn(async move {
                    let mut connection = S::connection(&transaction).await?;
                    S::insert(&mut connection, &format!("{number}")).await
                })
            })
            .collect();
        for helper in helpers {
            helper.await.expect("no panic").map_err(status)?;
        }
        call.insert().await
    })
    .await;
    service.create("shop").await.expect("a call");
    assert_eq!(names(&database.owner().await).await, ["0", "1", "2", "3", "4", "5", "6", "7", "shop"]);
}

pub async fn is_missing_if_the_procedure_is_in_reserved_mode<S: Stack>() {
    let database = Database::new().await;
    let describe = |procedure: ProcedureBuilder| procedure.mode(Mode::Reserved);
    let service = Service::with(&database, pool::<S>(&database, 2), describe, |call: Call<S>| async move {
        let missing = call.transaction.map(drop).expect_err("no transaction");
        assert_eq!(S::kind(&missing), TransactionErrorKind::Missing);
        Err::<Uuid, _>(status(missing))
    })
    .await;
    assert_eq!(service.create("shop").await.expect_err("no transaction").code(), Code::Internal);
}

/// The handler does not wait for the task, which waits for its turn.
pub async fn is_dead_in_a_task_that_outlives_the_call<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let pool = pool::<S>(&database, 1);
    let (sender, mut tasks) = tokio::sync::mpsc::unbounded_channel();
    let gate = Arc::new(Semaphore::new(0));
    let opens = Arc::clone(&gate);
    let service = Service::new(&database, pool.clone(), move |call: Call<S>| {
        let (sender, gate) = (sender.clone(), Arc::clone(&opens));
        async move {
            let project = call.insert().await?;
            let transaction = call.transaction();
            let task = tokio::spawn(async move {
                gate.acquire().await.expect("it is not closed").forget();
                let dead = late::<S>(&transaction).await;
                (S::kind(&dead), status(dead).code())
            });
            sender.send(task).expect("the test waits");
            if call.name == "fail" { Err(Status::not_found("not now")) } else { Ok(project) }
        }
    })
    .await;
    for service in [service.clone(), service.with_key(None)] {
        service.create("fail").await.expect_err("it fails");
        service.create("shop").await.expect("a call");
    }
    gate.add_permits(4);
    for _ in 0..4 {
        let dead = tasks.recv().await.expect("a task").await.expect("no panic");
        assert_eq!(dead, (TransactionErrorKind::Ended, Code::Internal));
    }
    assert_eq!(rows(&owner).await, [2, 2, 1]);
    assert_clean::<S>(&pool).await;
}

pub async fn reads_through_a_cursor<S: Stack>() {
    let database = Database::new().await;
    let pool = pool::<S>(&database, 1);
    let service = Service::new(&database, pool.clone(), |call: Call<S>| async move {
        let declare = "DECLARE numbers CURSOR FOR SELECT n::text FROM generate_series(1, 3) n";
        call.execute(declare).await.map_err(status)?;
        for expected in ["1", "2"] {
            assert_eq!(call.select("FETCH numbers").await?.as_deref(), Some(expected));
        }
        // It is open at the end.
        call.insert().await
    })
    .await;
    for key in [service.key, None] {
        service.with_key(key).create("shop").await.expect("a call");
        assert_clean::<S>(&pool).await;
    }
    assert_eq!(rows(&database.owner().await).await, [2, 2, 1]);
}
