//! sea-orm, as an application uses it.

use std::{pin::Pin, time::Duration};

use driver_suite::{
    Connections, DEADLOCK, End, INSERT, PoolOptions, SERIALIZATION_FAILURE, Stack, Step, round_trips::Expected,
    sequences::Savepoints,
};
use futures_util::FutureExt as _;
use http::Extensions;
use sea_orm::{
    ConnectOptions, ConnectionTrait, Database, DatabaseConnection, DbBackend, DbErr, Statement, TransactionTrait,
    sqlx::{self, AssertSqlSafe, Executor as _},
};
use tonic_idempotency::store::{CallSession, SqlStore, StoreError, TransactionErrorKind};
use tonic_idempotency_sea_orm::{OwnedTransaction, Savepoint, SeaOrm, Transaction, TransactionError};
use uuid::Uuid;

pub(crate) struct SeaOrmStack;

/// A pool that becomes a driver without an error.
#[derive(Clone)]
pub(crate) struct Pool(pub(crate) DatabaseConnection);

impl From<Pool> for SeaOrm {
    fn from(pool: Pool) -> Self {
        Self::new(&pool.0).expect("a PostgreSQL")
    }
}

impl Stack for SeaOrmStack {
    const IS_EXCLUSIVE: bool = false;
    const NOTICED: &'static [&'static str] = &[DEADLOCK, SERIALIZATION_FAILURE];
    const ROUND_TRIPS: Expected = Expected {
        bare: 5,           // ping, BEGIN, the user, insert, COMMIT
        user: 1,           // set_config
        keyed: 5,          // BEGIN, claim, insert, record, COMMIT
        replayed: 4,       // BEGIN, claim, the record of a key that is not free, ROLLBACK
        without_key: 5,    // BEGIN, the user, insert, a look, COMMIT
        with_savepoint: 6, // BEGIN, claim, savepoint, insert, record, COMMIT
        final_error: 7,    // BEGIN, claim, savepoint, insert, ROLLBACK TO, record, COMMIT
        returned: 1,       // ping
    };

    type Driver = SeaOrm;
    type Pool = Pool;
    type Transaction = Transaction;
    type Connection = Transaction;
    type Error = TransactionError;

    fn pool(PoolOptions { url, max_connections, setup, is_pooled, is_checked }: PoolOptions) -> Pool {
        let mut options = ConnectOptions::new(url);
        options.max_connections(u32::try_from(max_connections).expect("a few"));
        options
            .acquire_timeout(Duration::from_secs(2))
            .test_before_acquire(is_checked)
            .connect_lazy(true)
            .sqlx_logging(false);
        if is_pooled {
            // As docs/drivers.md says.
            options.map_sqlx_postgres_opts(|options| options.statement_cache_capacity(0).extra_float_digits(None));
        }
        options.map_sqlx_postgres_pool_opts(move |options| {
            let setup = setup.clone();
            options.after_connect(move |connection, _| {
                let setup = AssertSqlSafe(setup.clone());
                Box::pin(async move { connection.execute(sqlx::raw_sql(setup)).await.map(drop) })
            })
        });
        let pool = Database::connect(options).now_or_never().expect("it does not connect yet");
        Pool(pool.expect("a URL"))
    }

    async fn bare(Pool(database): &Pool, user: Uuid) -> Result<Uuid, TransactionError> {
        let transaction = database.begin().await?;
        set_user(&transaction, user).await?;
        let project = insert(&transaction, "bare").await?;
        transaction.commit().await?;
        Ok(project)
    }

    fn connections(Pool(pool): &Pool) -> Connections {
        let pool = pool.get_postgres_connection_pool();
        Connections { open: usize::try_from(pool.size()).expect("a few"), idle: pool.num_idle() }
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

    async fn insert(connection: &mut Transaction, name: &str) -> Result<Uuid, TransactionError> {
        Ok(insert(connection, name).await?)
    }

    async fn execute(connection: &mut Transaction, sql: &str) -> Result<(), TransactionError> {
        connection.execute_unprepared(sql).await?;
        Ok(())
    }

    async fn select(connection: &mut Transaction, sql: &str) -> Result<Option<String>, TransactionError> {
        let row = connection.query_one_raw(Statement::from_string(DbBackend::Postgres, sql)).await?;
        Ok(row.expect("a row").try_get_by_index(0)?)
    }

    async fn read_note(connection: &mut Transaction) -> Result<String, TransactionError> {
        Ok(Self::select(connection, "SELECT note FROM public.notes").await?.expect("a note"))
    }

    async fn nested(connection: &mut Transaction, steps: &[Step], end: End) -> Result<(), TransactionError> {
        Ok(nested(connection, steps, end).await?)
    }
}

impl Savepoints for SeaOrmStack {
    const IS_TOLD_BY_POLLS: bool = false;

    type Savepoint = Savepoint;

    async fn savepoint(through: &Transaction) -> Result<Savepoint, TransactionError> {
        Ok(TransactionTrait::begin(through).await?)
    }

    async fn commit(savepoint: Savepoint) -> Result<(), TransactionError> {
        Ok(savepoint.commit().await?)
    }

    async fn roll_back(savepoint: Savepoint) -> Result<(), TransactionError> {
        Ok(savepoint.rollback().await?)
    }
}

/// Inserts a project with this name, as a repository does that knows nothing of calls.
pub(crate) async fn insert(to: &impl ConnectionTrait, name: &str) -> Result<Uuid, DbErr> {
    let insert = Statement::from_sql_and_values(DbBackend::Postgres, INSERT, [name.into()]);
    to.query_one_raw(insert).await?.ok_or(DbErr::RecordNotInserted)?.try_get("", "id")
}

/// Sets the user, without the layer.
pub(crate) async fn set_user(to: &impl ConnectionTrait, user: Uuid) -> Result<(), DbErr> {
    let set = "SELECT set_config('app.current_user_id', $1, true)";
    to.execute_raw(Statement::from_sql_and_values(DbBackend::Postgres, set, [user.to_string().into()])).await.map(drop)
}

/// A repository that has a transaction of its own.
fn nested<'a, C>(to: &'a C, steps: &'a [Step], end: End) -> Pin<Box<dyn Future<Output = Result<(), DbErr>> + Send + 'a>>
where
    C: ConnectionTrait + TransactionTrait<Transaction: Send + Sync>,
{
    Box::pin(async move {
        let transaction = to.begin().await?;
        for step in steps {
            match step {
                Step::Insert(name) => drop(insert(&transaction, name).await?),
                Step::Fail => drop(transaction.execute_unprepared("SELECT 1 / 0").await),
                Step::Lose => drop(transaction.execute_unprepared(DEADLOCK).await),
                Step::Nested(steps, end) => drop(nested(&transaction, steps, *end).await),
            }
        }
        match end {
            End::Commit => sea_orm::TransactionSession::commit(transaction).await?,
            End::RollBack => sea_orm::TransactionSession::rollback(transaction).await?,
            End::Drop => drop(transaction),
            End::Leak => std::mem::forget(transaction),
        }
        Ok(())
    })
}
