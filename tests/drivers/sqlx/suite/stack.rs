//! sqlx, as an application uses it.

use std::{pin::Pin, time::Duration};

use driver_suite::{Connections, DEADLOCK, End, INSERT, PoolOptions, Stack, Step, round_trips::Expected};
use http::Extensions;
use sqlx::{
    AssertSqlSafe, Connection as _, Executor as _, PgConnection, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use tonic_idempotency::store::{CallSession, SqlStore, StoreError, TransactionErrorKind};
use tonic_idempotency_sqlx::{OwnedTransaction, Sqlx, Transaction, TransactionConnection, TransactionError};
use uuid::Uuid;

pub(crate) struct SqlxStack;

impl Stack for SqlxStack {
    const IS_EXCLUSIVE: bool = true;
    const NOTICED: &'static [&'static str] = &[];
    /// The insert takes two: it is not prepared.
    const ROUND_TRIPS: Expected = Expected {
        bare: 6,           // ping, BEGIN, the user, insert, COMMIT
        user: 1,           // set_config
        keyed: 6,          // BEGIN, claim, insert, record, COMMIT
        replayed: 4,       // BEGIN, claim, the record of a key that is not free, ROLLBACK
        without_key: 6,    // BEGIN, the user, insert, a look, COMMIT
        with_savepoint: 7, // BEGIN, claim, savepoint, insert, record, COMMIT
        final_error: 8,    // BEGIN, claim, savepoint, insert, ROLLBACK TO, record, COMMIT
        returned: 1,       // ping
    };

    type Driver = Sqlx;
    type Pool = PgPool;
    type Transaction = Transaction;
    type Connection = TransactionConnection;
    type Error = TransactionError;

    fn pool(PoolOptions { url, max_connections, setup, is_pooled, is_checked }: PoolOptions) -> PgPool {
        let mut options: PgConnectOptions = url.parse().expect("a URL");
        if is_pooled {
            options = options.statement_cache_capacity(0).extra_float_digits(None);
        }
        PgPoolOptions::new()
            .max_connections(u32::try_from(max_connections).expect("a few"))
            .acquire_timeout(Duration::from_secs(2))
            .test_before_acquire(is_checked)
            .after_connect(move |connection, _| {
                let setup = AssertSqlSafe(setup.clone());
                Box::pin(async move { connection.execute(sqlx::raw_sql(setup)).await.map(drop) })
            })
            .connect_lazy_with(options)
    }

    async fn bare(pool: &PgPool, user: Uuid) -> Result<Uuid, TransactionError> {
        let mut transaction = pool.begin().await?;
        let set = "SELECT set_config('app.current_user_id', $1, true)";
        sqlx::query(set).bind(user.to_string()).execute(&mut *transaction).await?;
        let project = insert(&mut transaction, "bare").await?;
        transaction.commit().await?;
        Ok(project)
    }

    fn connections(pool: &PgPool) -> Connections {
        Connections { open: usize::try_from(pool.size()).expect("a few"), idle: pool.num_idle() }
    }

    async fn begin(store: &SqlStore<Self::Driver>, session: &CallSession) -> Result<OwnedTransaction, StoreError> {
        Transaction::begin_on(store, session).await
    }

    fn transaction(extensions: &Extensions) -> Result<Transaction, TransactionError> {
        Transaction::from_extensions(extensions)
    }

    async fn connection(transaction: &Transaction) -> Result<TransactionConnection, TransactionError> {
        transaction.connection().await
    }

    fn note(transaction: &Transaction, error: &TransactionError) {
        transaction.note(error.as_sqlx_error().expect("the error of a statement"));
    }

    fn kind(error: &TransactionError) -> TransactionErrorKind {
        error.kind()
    }

    async fn insert(connection: &mut TransactionConnection, name: &str) -> Result<Uuid, TransactionError> {
        insert(connection, name).await
    }

    async fn execute(connection: &mut TransactionConnection, sql: &str) -> Result<(), TransactionError> {
        execute(connection, sql).await
    }

    async fn select(connection: &mut TransactionConnection, sql: &str) -> Result<Option<String>, TransactionError> {
        Ok(sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).persistent(false).fetch_one(&mut **connection).await?)
    }

    async fn read_note(connection: &mut TransactionConnection) -> Result<String, TransactionError> {
        Ok(sqlx::query_scalar("SELECT note FROM public.notes").fetch_one(&mut **connection).await?)
    }

    async fn nested(connection: &mut TransactionConnection, steps: &[Step], end: End) -> Result<(), TransactionError> {
        nested(connection, steps, end).await
    }
}

/// Inserts a project with this name, as a repository does that knows nothing of calls.
pub(crate) async fn insert(connection: &mut PgConnection, name: &str) -> Result<Uuid, TransactionError> {
    // Works behind a pooler, too.
    Ok(sqlx::query_scalar(INSERT).persistent(false).bind(name).fetch_one(connection).await?)
}

async fn execute(connection: &mut PgConnection, sql: &str) -> Result<(), TransactionError> {
    connection.execute(sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))).await?;
    Ok(())
}

fn nested<'a>(
    connection: &'a mut PgConnection,
    steps: &'a [Step],
    end: End,
) -> Pin<Box<dyn Future<Output = Result<(), TransactionError>> + Send + 'a>> {
    Box::pin(async move {
        let mut transaction = connection.begin().await?;
        for step in steps {
            match step {
                Step::Insert(name) => drop(insert(&mut transaction, name).await?),
                Step::Fail => drop(execute(&mut transaction, "SELECT 1 / 0").await),
                Step::Lose => drop(execute(&mut transaction, DEADLOCK).await),
                Step::Nested(steps, end) => drop(nested(&mut transaction, steps, *end).await),
            }
        }
        match end {
            End::Commit => transaction.commit().await?,
            End::RollBack => transaction.rollback().await?,
            End::Drop => drop(transaction),
            End::Leak => std::mem::forget(transaction),
        }
        Ok(())
    })
}
