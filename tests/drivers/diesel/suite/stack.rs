//! diesel-async, as an application uses it, with a pool of deadpool or bb8.

use std::{marker::PhantomData, ops::DerefMut, pin::Pin, sync::Arc, time::Duration};

use diesel::{
    ConnectionError, QueryDsl, QueryResult, QueryableByName,
    deserialize::{self, FromSql},
    pg::Pg,
    row::{self, Field as _, NamedRow},
    sql_query,
    sql_types::{Nullable, Text},
};
use diesel_async::{
    AsyncConnection as _, AsyncPgConnection, RunQueryDsl as _, SimpleAsyncConnection as _,
    pooled_connection::{AsyncDieselConnectionManager, ManagerConfig, RecyclingMethod, bb8, deadpool},
};
use driver_suite::{
    Connections, DEADLOCK, End, INSERT, PoolOptions, SERIALIZATION_FAILURE, Stack, Step, round_trips::Expected,
};
use http::Extensions;
use tokio::sync::Notify;
use tonic_idempotency::store::{CallSession, SqlStore, StoreError, TransactionErrorKind};
use tonic_idempotency_diesel::{Diesel, OwnedTransaction, Transaction, TransactionConnection, TransactionError};
use uuid::Uuid;

pub(crate) type Deadpool = deadpool::Pool<AsyncPgConnection>;
pub(crate) type Bb8 = bb8::Pool<AsyncPgConnection>;

/// diesel-async with a pool.
pub(crate) struct DieselStack<P>(PhantomData<P>);

pub(crate) type DeadpoolStack = DieselStack<Deadpool>;
pub(crate) type Bb8Stack = DieselStack<Bb8>;

/// A pool of diesel-async.
pub(crate) trait Pool: Clone + Into<Diesel> + Send + Sync + 'static {
    const LEFT_OUT: &'static [(&'static str, &'static str)];

    fn build(manager: AsyncDieselConnectionManager<AsyncPgConnection>, size: usize) -> Self;

    fn connection(&self) -> impl Future<Output = impl DerefMut<Target = AsyncPgConnection> + Send> + Send;

    fn connections(&self) -> Connections;
}

impl Pool for Deadpool {
    const LEFT_OUT: &'static [(&'static str, &'static str)] = &[
        (
            "bouncer::a_client_that_hangs_up_has_its_statement_cancelled",
            "tokio-postgres does not wait for the end of its request to cancel, and PgBouncer drops a request whose client has gone",
        ),
        (
            "disconnects::cancel_the_statement_that_runs_and_keep_the_connection",
            "the connection is closed: the request to cancel may arrive after the statement",
        ),
        (
            "savepoints::are_rolled_back_if_dropped",
            "diesel rolls nothing back: the call is refused, as `savepoints` shows",
        ),
        (
            "savepoints::one_that_is_never_dropped_is_committed_with_the_call",
            "it cannot be told from one that was dropped: the call is refused, as `savepoints` shows",
        ),
        (
            "savepoints::one_whose_commit_fails_is_rolled_back",
            "diesel leaves the call's transaction failed: the call is refused, as `savepoints` shows",
        ),
    ];

    fn build(manager: AsyncDieselConnectionManager<AsyncPgConnection>, size: usize) -> Self {
        Self::builder(manager).max_size(size).build().expect("a pool")
    }

    async fn connection(&self) -> impl DerefMut<Target = AsyncPgConnection> + Send {
        self.get().await.expect("a connection")
    }

    fn connections(&self) -> Connections {
        let status = self.status();
        Connections { open: status.size, idle: status.available }
    }
}

impl Pool for Bb8 {
    const LEFT_OUT: &'static [(&'static str, &'static str)] =
        &[("errors::of_a_login_are_told_apart", "bb8 does not say why it has no connection")];

    fn build(manager: AsyncDieselConnectionManager<AsyncPgConnection>, size: usize) -> Self {
        let size = u32::try_from(size).expect("a few");
        Self::builder().max_size(size).connection_timeout(Duration::from_secs(2)).build_unchecked(manager)
    }

    async fn connection(&self) -> impl DerefMut<Target = AsyncPgConnection> + Send {
        self.get_owned().await.expect("a connection")
    }

    fn connections(&self) -> Connections {
        let state = self.state();
        let count = |count| usize::try_from(count).expect("a few");
        Connections { open: count(state.connections), idle: count(state.idle_connections) }
    }
}

impl<P: Pool> Stack for DieselStack<P> {
    const LEFT_OUT: &'static [(&'static str, &'static str)] = P::LEFT_OUT;
    const IS_EXCLUSIVE: bool = true;
    const NEEDS_TRACKING: bool = true;
    const NOTICED: &'static [&'static str] = &[SERIALIZATION_FAILURE];
    /// The user and the insert take two each: diesel does not keep their texts prepared.
    const ROUND_TRIPS: Expected = Expected {
        bare: 6,           // BEGIN, the user, insert, COMMIT
        user: 2,           // set_config
        keyed: 5,          // BEGIN and claim, insert, record, COMMIT
        replayed: 3,       // BEGIN and claim, the record of a key that is not free, ROLLBACK
        without_key: 4,    // BEGIN and the user, insert, COMMIT
        with_savepoint: 6, // BEGIN and claim, savepoint, insert, record, COMMIT
        final_error: 6,    // BEGIN and claim, savepoint, insert, ROLLBACK TO and record, COMMIT
        returned: 0,
    };

    type Driver = Diesel;
    type Pool = P;
    type Transaction = Transaction;
    type Connection = TransactionConnection;
    type Error = TransactionError;

    fn pool(PoolOptions { url, max_connections, setup, is_pooled: _, is_checked: _ }: PoolOptions) -> P {
        pool(&url, max_connections, move |connection| {
            let setup = setup.clone();
            Box::pin(async move { connection.batch_execute(&setup).await })
        })
    }

    async fn bare(pool: &P, user: Uuid) -> Result<Uuid, TransactionError> {
        let mut connection = pool.connection().await;
        let transaction = connection.transaction(async |connection| {
            let set = sql_query("SELECT set_config('app.current_user_id', $1, true)").bind::<Text, _>(user.to_string());
            set.execute(connection).await?;
            insert(connection, "bare").await
        });
        transaction.await
    }

    fn connections(pool: &P) -> Connections {
        pool.connections()
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
        transaction.note(error.as_diesel_error().expect("the error of a statement"));
    }

    fn kind(error: &TransactionError) -> TransactionErrorKind {
        error.kind()
    }

    async fn insert(connection: &mut TransactionConnection, name: &str) -> Result<Uuid, TransactionError> {
        insert(connection, name).await
    }

    async fn execute(connection: &mut TransactionConnection, sql: &str) -> Result<(), TransactionError> {
        Ok(connection.batch_execute(sql).await?)
    }

    async fn select(connection: &mut TransactionConnection, sql: &str) -> Result<Option<String>, TransactionError> {
        /// The only column, whatever its name.
        struct Selected(Option<String>);

        impl QueryableByName<Pg> for Selected {
            fn build<'a>(row: &impl NamedRow<'a, Pg>) -> deserialize::Result<Self> {
                let field = row::Row::get(row, 0).ok_or("there is no column")?;
                FromSql::<Nullable<Text>, Pg>::from_nullable_sql(field.value()).map(Self)
            }
        }

        Ok(sql_query(sql).get_result::<Selected>(connection).await?.0)
    }

    async fn read_note(connection: &mut TransactionConnection) -> Result<String, TransactionError> {
        diesel::table! { public.notes (id) { id -> Integer, note -> Text, } }
        Ok(QueryDsl::select(notes::table, notes::note).first(connection).await?)
    }

    async fn nested(connection: &mut TransactionConnection, steps: &[Step], end: End) -> Result<(), TransactionError> {
        nested(connection, steps, end).await
    }
}

type SetUp<'a> = Pin<Box<dyn Future<Output = QueryResult<()>> + Send + 'a>>;

/// A pool whose connections are set up by a function.
pub(crate) fn pool<P: Pool>(
    url: &str,
    size: usize,
    set_up: impl Fn(&mut AsyncPgConnection) -> SetUp<'_> + Send + Sync + 'static,
) -> P {
    let set_up = Arc::new(set_up);
    let mut config = ManagerConfig::default();
    config.recycling_method = RecyclingMethod::Fast;
    config.custom_setup = Box::new(move |url| {
        let set_up = Arc::clone(&set_up);
        Box::pin(async move {
            let mut connection = AsyncPgConnection::establish(url).await?;
            set_up(&mut connection).await.map_err(ConnectionError::CouldntSetupConfiguration)?;
            Ok(connection)
        })
    });
    P::build(AsyncDieselConnectionManager::new_with_config(url, config), size)
}

/// Inserts a project with this name, as a repository does that knows nothing of calls.
pub(crate) async fn insert(connection: &mut AsyncPgConnection, name: &str) -> Result<Uuid, TransactionError> {
    #[derive(QueryableByName)]
    struct Inserted {
        #[diesel(sql_type = diesel::sql_types::Uuid)]
        id: Uuid,
    }

    Ok(sql_query(INSERT).bind::<Text, _>(name).get_result::<Inserted>(connection).await?.id)
}

fn nested<'a>(
    connection: &'a mut AsyncPgConnection,
    steps: &'a [Step],
    end: End,
) -> Pin<Box<dyn Future<Output = Result<(), TransactionError>> + Send + 'a>> {
    Box::pin(async move {
        let taken = &Notify::new();
        let transaction = connection.transaction(async |connection| {
            for step in steps {
                take(connection, step).await?;
            }
            taken.notify_one();
            match end {
                End::Commit => Ok(()),
                End::RollBack => Err(diesel::result::Error::RollbackTransaction.into()),
                End::Drop | End::Leak => std::future::pending().await,
            }
        });
        match end {
            End::Commit => transaction.await,
            End::RollBack => match transaction.await {
                Err(error) if is_roll_back(&error) => Ok(()),
                ended => ended,
            },
            End::Drop | End::Leak => tokio::select! {
                ended = transaction => ended,
                () = taken.notified() => Ok(()),
            },
        }
    })
}

async fn take(connection: &mut AsyncPgConnection, step: &Step) -> Result<(), TransactionError> {
    match step {
        Step::Insert(name) => drop(insert(connection, name).await?),
        Step::Fail => drop(connection.batch_execute("SELECT 1 / 0").await),
        Step::Lose => drop(connection.batch_execute(DEADLOCK).await),
        Step::Nested(steps, end) => drop(nested(connection, steps, *end).await),
    }
    Ok(())
}

fn is_roll_back(error: &TransactionError) -> bool {
    matches!(error.as_diesel_error(), Some(diesel::result::Error::RollbackTransaction))
}
