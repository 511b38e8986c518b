//! Jobs in a table of the database, as docs/consumers.md claims them.

use tokio_postgres::types::Type;
use tonic_idempotency::{
    Transaction,
    run::{Bytes, Call, Operation},
    store::TransactionError,
};

use crate::{
    prelude::*,
    run::{CHARGE, billing, layer},
};

const PAGE: &str = include_str!("../../../docs/consumers.md");

/// Several workers at once, each of which deletes a job in the transaction of its handler.
#[tokio::test]
async fn that_are_claimed_by_a_commit_are_done_once_and_none_waits_for_its_own_lock() {
    let claim = PAGE.split("```").find_map(|block| block.strip_prefix("sql\n-- as the worker")).expect("the statement");
    let claim = &claim[claim.find("UPDATE").expect("a statement")..];
    let database = Database::new().await;
    let owner = database.owner().await;
    let table = "CREATE TABLE public.jobs (id bigint PRIMARY KEY, payload text NOT NULL, due timestamptz NOT NULL DEFAULT now());
                 CREATE TABLE public.done (job bigint NOT NULL);
                 INSERT INTO public.jobs SELECT id, 'work' FROM generate_series(1, 50) id;
                 GRANT ALL ON public.jobs, public.done TO PUBLIC";
    owner.batch_execute(table).await.expect("the jobs");
    let operation: Operation<Bytes> =
        layer(postgres(database.pool(8)), |it| it.mode(Mode::Transactional)).operation(CHARGE).expect("it is declared");
    let mut workers = JoinSet::new();
    for _ in 0..3 {
        let (operation, connection, claim) = (operation.clone(), database.api().await, claim.to_owned());
        workers.spawn(async move {
            loop {
                let jobs = connection.query(&claim, &[]).await.expect("the jobs that are due");
                for job in &jobs {
                    let (id, payload): (i64, &str) = (job.get(0), job.get(1));
                    let handler = move |call: Call, _| async move {
                        let transaction = Transaction::from_extensions(call.extensions())?;
                        for statement in ["DELETE FROM jobs WHERE id = $1", "INSERT INTO done VALUES ($1)"] {
                            transaction.query_typed(statement, &[(&id, Type::INT8)]).await?;
                        }
                        Ok::<_, TransactionError>(Vec::new())
                    };
                    let ended = operation.receive(&billing(), |_| id.to_string(), payload.as_bytes(), handler).await;
                    ended.expect("it does not wait for its job");
                }
                if jobs.is_empty() {
                    return;
                }
            }
        });
    }
    workers.join_all().await;
    let counts = "SELECT (SELECT count(*) FROM public.jobs), count(*), count(DISTINCT job) FROM public.done";
    let row = owner.query_one(counts, &[]).await.expect("the counts");
    assert_eq!([0, 1, 2].map(|column| row.get::<_, i64>(column)), [0, 50, 50]);
}
