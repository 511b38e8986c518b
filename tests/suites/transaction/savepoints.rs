//! Savepoints of clones that take them at once, and of random sequences.

use driver_suite::{Stack, sequences};
use tonic_idempotency::store::OwnedTransaction;

use crate::prelude::*;

/// A transaction, in a database with an empty table of marks.
async fn begun() -> (Database, Client, OwnedTransaction) {
    let (database, owner) = Database::with_owner().await;
    let make = "CREATE TABLE public.marks (mark integer NOT NULL); GRANT ALL ON public.marks TO PUBLIC";
    owner.batch_execute(make).await.expect("the table");
    let begun = PostgresStack::begin(&database.store(), &CallSession::default()).await;
    (database, owner, begun.expect("a transaction"))
}

async fn marks(owner: &Client) -> Vec<i32> {
    let rows = owner.query("SELECT mark FROM public.marks ORDER BY mark", &[]).await.expect("the marks");
    rows.iter().map(|row| row.get(0)).collect()
}

async fn mark(transaction: &Transaction, mark: i32) -> Result<(), TransactionError> {
    let insert = "INSERT INTO public.marks (mark) VALUES ($1)";
    transaction.execute_typed(insert, &[(&mark, Type::INT4)]).await.map(drop)
}

#[tokio::test]
async fn one_whose_future_is_dropped_is_not_left_behind() {
    let (_database, owner, transaction) = begun().await;
    drop(transaction.savepoint().now_or_never());
    mark(&transaction, 1).await.expect("a mark");
    transaction.commit().await.expect("it commits");
    assert_eq!(marks(&owner).await, [1]);
}

/// Each clone takes savepoints of its own, all at once: they nest in the order in which the server gets them.
#[tokio::test]
async fn clones_that_take_savepoints_at_once_do_not_kill_the_transaction() {
    let (_database, owner, transaction) = begun().await;
    let helpers = (0..8).map(|helper| {
        let transaction = Transaction::clone(&transaction);
        tokio::spawn(async move {
            for round in 0..16 {
                // Ended by the savepoint of another clone, perhaps.
                let Ok(savepoint) = transaction.savepoint().await else { continue };
                let _ = mark(&savepoint, 1000 + helper).await;
                match round % 3 {
                    0 => drop(savepoint),
                    1 => drop(savepoint.commit().await),
                    _ => drop(savepoint.roll_back().await),
                }
            }
        })
    });
    for helper in helpers.collect::<Vec<_>>() {
        helper.await.expect("no panic");
    }
    mark(&transaction, 1).await.expect("the transaction lives");
    transaction.commit().await.expect("it commits");
    assert_eq!(marks(&owner).await.first(), Some(&1));
}

#[tokio::test]
async fn random_sequences_leave_what_the_model_says() {
    sequences::leave_what_a_model_says::<PostgresStack>().await;
}
