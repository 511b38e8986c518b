//! tokio-postgres with deadpool, as an application uses them.

use std::pin::Pin;

use deadpool_postgres::Pool;
use driver_suite::{
    Connections, DEADLOCK, End, INSERT, PoolOptions, SERIALIZATION_FAILURE, Stack, Step, round_trips::Expected,
    sequences::Savepoints,
};
use http::Extensions;
use tonic_idempotency::store::{Deadpool, OwnedTransaction, Savepoint, SqlStore, StoreError};

use crate::prelude::*;

pub(crate) struct PostgresStack;

impl Stack for PostgresStack {
    const LEFT_OUT: &'static [(&'static str, &'static str)] = &[
        (
            "bouncer::a_client_that_hangs_up_has_its_statement_cancelled",
            "tokio-postgres does not wait for the end of its request to cancel, and PgBouncer drops a request whose client has gone",
        ),
        (
            "disconnects::cancel_the_statement_that_runs_and_keep_the_connection",
            "the statement is cancelled at the timeout of the store, and the connection is closed",
        ),
    ];
    const IS_EXCLUSIVE: bool = false;
    const NOTICED: &'static [&'static str] = &[DEADLOCK, SERIALIZATION_FAILURE];
    const ROUND_TRIPS: Expected = Expected {
        bare: 4,           // BEGIN, the user, insert, COMMIT
        user: 1,           // set_config
        keyed: 3,          // BEGIN and claim, insert, record and COMMIT
        replayed: 3,       // BEGIN and claim, the record of a key that is not free, ROLLBACK
        without_key: 3,    // BEGIN and the user, insert, COMMIT
        with_savepoint: 3, // BEGIN, claim and savepoint, insert, record and COMMIT
        final_error: 3,    // BEGIN, claim and savepoint, insert, ROLLBACK TO, record and COMMIT
        returned: 0,
    };

    type Driver = Deadpool;
    type Pool = Pool;
    type Transaction = Transaction;
    type Connection = Transaction;
    type Error = TransactionError;

    fn pool(PoolOptions { url, max_connections, setup, .. }: PoolOptions) -> Pool {
        tonic_idempotency_tests::pool(url.parse().expect("a URL"), max_connections, setup)
    }

    async fn bare(pool: &Pool, user: Uuid) -> Result<Uuid, TransactionError> {
        let mut connection = pool.get().await.expect("a connection");
        let transaction = connection.transaction().await?;
        let set = "SELECT set_config('app.current_user_id', $1, true)";
        transaction.execute_typed(set, &[(&user.to_string(), Type::TEXT)]).await?;
        let project = transaction.query_typed(INSERT, &[(&"bare", Type::TEXT)]).await?[0].get("id");
        transaction.commit().await?;
        Ok(project)
    }

    fn connections(pool: &Pool) -> Connections {
        let status = pool.status();
        Connections { open: status.size, idle: status.available }
    }

    async fn begin(store: &SqlStore<Self::Driver>, session: &CallSession) -> Result<OwnedTransaction, StoreError> {
        Transaction::begin_on(store, session).await
    }

    fn transaction(extensions: &Extensions) -> Result<Transaction, TransactionError> {
        Transaction::from_extensions(extensions)
    }

    async fn connection(transaction: &Transaction) -> Result<Transaction, TransactionError> {
        Ok(transaction.clone())
    }

    fn kind(error: &TransactionError) -> TransactionErrorKind {
        error.kind()
    }

    async fn insert(transaction: &mut Transaction, name: &str) -> Result<Uuid, TransactionError> {
        insert(transaction, name).await
    }

    async fn execute(transaction: &mut Transaction, sql: &str) -> Result<(), TransactionError> {
        transaction.batch_execute(sql).await
    }

    async fn select(transaction: &mut Transaction, sql: &str) -> Result<Option<String>, TransactionError> {
        Ok(transaction.query_typed_one(sql, &[]).await?.get(0))
    }

    async fn read_note(transaction: &mut Transaction) -> Result<String, TransactionError> {
        let select = transaction.prepare_cached("SELECT note FROM public.notes").await?;
        Ok(transaction.query_one(&select, &[]).await?.get(0))
    }

    async fn nested(transaction: &mut Transaction, steps: &[Step], end: End) -> Result<(), TransactionError> {
        nested(transaction, steps, end).await
    }
}

impl Savepoints for PostgresStack {
    const IS_TOLD_BY_POLLS: bool = true;

    type Savepoint = Savepoint;

    async fn savepoint(through: &Transaction) -> Result<Savepoint, TransactionError> {
        through.savepoint().await
    }

    async fn commit(savepoint: Savepoint) -> Result<(), TransactionError> {
        savepoint.commit().await
    }

    async fn roll_back(savepoint: Savepoint) -> Result<(), TransactionError> {
        savepoint.roll_back().await
    }
}

/// Inserts a project with this name.
pub(crate) async fn insert(transaction: &Transaction, name: &str) -> Result<Uuid, TransactionError> {
    Ok(transaction.query_typed_one(INSERT, &[(&name, Type::TEXT)]).await?.get("id"))
}

fn nested<'a>(
    transaction: &'a Transaction,
    steps: &'a [Step],
    end: End,
) -> Pin<Box<dyn Future<Output = Result<(), TransactionError>> + Send + 'a>> {
    Box::pin(async move {
        let savepoint = transaction.savepoint().await?;
        for step in steps {
            match step {
                Step::Insert(name) => drop(insert(&savepoint, name).await?),
                Step::Fail => drop(savepoint.batch_execute("SELECT 1 / 0").await),
                Step::Lose => drop(savepoint.batch_execute(DEADLOCK).await),
                Step::Nested(steps, end) => drop(nested(&savepoint, steps, *end).await),
            }
        }
        match end {
            End::Commit => savepoint.commit().await?,
            End::RollBack => savepoint.roll_back().await?,
            End::Drop => drop(savepoint),
            End::Leak => std::mem::forget(savepoint),
        }
        Ok(())
    })
}
