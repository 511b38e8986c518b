//! The interface of a driver and its client library to the tests.

use std::error::Error;

use http::Extensions;
use tonic::Status;
use tonic_idempotency::store::{
    CallSession, SqlStore, StoreError, TransactionErrorKind,
    driver::{Driver, Owned},
};
use uuid::Uuid;

use crate::round_trips::Expected;

/// A driver with its client library, as an application uses them: how it makes a pool, and what a handler does with its
/// transaction. It is a type without values.
///
/// The SQL of the tests has no parameters. Unless its documentation says otherwise, a function may send it in the library's own way.
pub trait Stack: Send + Sync + Sized + 'static {
    /// The tests that the driver leaves out, as `module::name`, each with the reason, which is printed when the tests run.
    const LEFT_OUT: &'static [(&'static str, &'static str)] = &[];

    /// Whether the layer cannot commit as long as a handler keeps its [`Connection`](Self::Connection): one handle at a time has it.
    /// Otherwise a connection that is kept is dead when the call has ended.
    const IS_EXCLUSIVE: bool;

    /// Whether the library prepares its statements behind PgBouncer, too. PgBouncer then has to track them; if the installed version
    /// cannot, the tests behind PgBouncer are left out.
    const NEEDS_TRACKING: bool = false;

    /// The conflicts that the driver notices by itself, whatever the handler answers: none, one, or both of
    /// [`DEADLOCK`](crate::DEADLOCK) and [`SERIALIZATION_FAILURE`](crate::SERIALIZATION_FAILURE).
    const NOTICED: &'static [&'static str];

    /// The round trips of its calls.
    const ROUND_TRIPS: Expected;

    /// The driver.
    type Driver: Driver;

    /// The pool of the library, or what else the application makes a store from. Clones share the connections.
    type Pool: Clone + Into<Self::Driver> + Send + Sync + 'static;

    /// The handle that a handler finds in its request. Clones are handles of the same transaction.
    type Transaction: Clone + Send + Sync + 'static;

    /// The means by which a handler writes: the guard of the connection, or a handle, if that is enough.
    type Connection: Send + 'static;

    /// The error that turns into the handler's [`Status`].
    type Error: Error + Into<Status> + Send + Sync + 'static;

    /// Makes a pool, inside of a runtime. It connects when it is used, and waits no longer than about two seconds for a connection.
    fn pool(options: PoolOptions) -> Self::Pool;

    /// Inserts a project for a user with only the client library, in a transaction in which `app.current_user_id` is set: as a handler does
    /// without the layer.
    ///
    /// # Errors
    ///
    /// Those of the statements.
    fn bare(pool: &Self::Pool, user: Uuid) -> impl Future<Output = Result<Uuid, Self::Error>> + Send;

    /// Counts the connections of a pool.
    fn connections(pool: &Self::Pool) -> Connections;

    /// Begins a transaction without a call: `Transaction::begin_on`.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    fn begin(
        store: &SqlStore<Self::Driver>,
        session: &CallSession,
    ) -> impl Future<Output = Result<Owned<Self::Transaction>, StoreError>> + Send;

    /// Finds the transaction in the extensions of a request: `Transaction::from_extensions`.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    fn transaction(extensions: &Extensions) -> Result<Self::Transaction, Self::Error>;

    /// Takes the connection, waiting for other handles that have it.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    fn connection(
        transaction: &Self::Transaction,
    ) -> impl Future<Output = Result<Self::Connection, Self::Error>> + Send;

    /// Notes the error of a statement: `Transaction::note`. By default it does nothing: for a driver that sees the errors of the
    /// handler's statements by itself.
    fn note(transaction: &Self::Transaction, error: &Self::Error) {
        let _ = (transaction, error);
    }

    /// Returns the kind of an error.
    fn kind(error: &Self::Error) -> TransactionErrorKind;

    /// Inserts a project with this name, which is a parameter, and returns its id. The statement is [`INSERT`](crate::INSERT), or
    /// the same in the library's own words. It must work behind PgBouncer.
    ///
    /// # Errors
    ///
    /// Those of the statement.
    fn insert(connection: &mut Self::Connection, name: &str) -> impl Future<Output = Result<Uuid, Self::Error>> + Send;

    /// Executes one or several statements with exactly this text, by the protocol of simple queries. The first poll of the future
    /// sends it.
    ///
    /// # Errors
    ///
    /// Those of the statements.
    fn execute(connection: &mut Self::Connection, sql: &str) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Runs a query that returns one row with one column, a text. It must work behind PgBouncer.
    ///
    /// # Errors
    ///
    /// Those of the query.
    fn select(
        connection: &mut Self::Connection,
        sql: &str,
    ) -> impl Future<Output = Result<Option<String>, Self::Error>> + Send;

    /// Reads the only row of [`NOTES`](crate::NOTES) by a statement that the library prepares once for each connection.
    ///
    /// # Errors
    ///
    /// Those of the query.
    fn read_note(connection: &mut Self::Connection) -> impl Future<Output = Result<String, Self::Error>> + Send;

    /// Begins a transaction inside of the call's, a savepoint, as a repository does that has one of its own; takes the steps in it; and
    /// ends it.
    ///
    /// # Errors
    ///
    /// The first error: of the beginning, of a step that must succeed, or of the end. After an error of a step the inner
    /// transaction is rolled back, as the library does it.
    fn nested(
        connection: &mut Self::Connection,
        steps: &[Step],
        end: End,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// The options of a pool.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    /// The URL of the database.
    pub url: String,
    /// The greatest number of connections.
    pub max_connections: usize,
    /// The SQL that each new connection runs first; may be empty.
    pub setup: String,
    /// Whether the URL is that of a PgBouncer in transaction mode: the pool needs the settings that `docs/drivers.md` names.
    pub is_pooled: bool,
    /// Whether the pool may ask whether an idle connection lives, if it does so by default.
    pub is_checked: bool,
}

/// The connections of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connections {
    /// How many are open, in use or not.
    pub open: usize,
    /// How many of them are not in use.
    pub idle: usize,
}

/// A step in a nested transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Inserts a project with this name, as [`Stack::insert`] does.
    Insert(String),
    /// Runs a statement that fails, `SELECT 1 / 0`, and goes on.
    Fail,
    /// Runs [`DEADLOCK`](crate::DEADLOCK), which fails, and goes on.
    Lose,
    /// A transaction inside of this one, whose error is passed over.
    Nested(Vec<Step>, End),
}

/// The end of a nested transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It is committed.
    Commit,
    /// It is rolled back.
    RollBack,
    /// It is dropped without an end, which rolls it back.
    Drop,
    /// It is kept from being dropped, as by `mem::forget`.
    Leak,
}
